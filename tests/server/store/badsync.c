/* A disk whose syncs fail while the file $BADSYNC exists ($BADSYNC.seen tells that one has), and on which what a failed
   sync should have written is gone: the system takes those pages for written and does not write them again, unless
   somebody changes them again. Preloaded; after kill -9 the folder $DURABLE holds what a power cut would have left, at worst. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 1 << 14, FILES = 32 };
static struct { char path[1024]; char *dropped; } files[FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char *kept(const char *path) { /* which pages were dropped: the next process must know */
    char name[2200];
    snprintf(name, sizeof name, "%s%s.dropped", getenv("DURABLE"), strrchr(path, '/'));
    int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, PAGES)) abort();
    char *map = mmap(0, PAGES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (map == MAP_FAILED) abort();
    return map;
}

static int known(int file, char *path) { /* its place in the table, or -1 */
    char link[64];
    struct stat about;
    const char *folder = getenv("DURABLE");
    if (!folder || fstat(file, &about) || !S_ISREG(about.st_mode)) return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, 1023);
    if (length <= 0) return -1;
    path[length] = 0;
    if (!strstr(path, ".sqlite") || strstr(path, folder)) return -1;
    for (int i = 0; i < FILES; i++) {
        if (!files[i].path[0]) {
            strcpy(files[i].path, path);
            files[i].dropped = kept(path);
        }
        if (!strcmp(files[i].path, path)) return i;
    }
    abort();
}

static ssize_t page_of(int file, long page, char *buffer) {
    memset(buffer, 0, PAGE);
    return file < 0 ? 0 : syscall(SYS_pread64, file, buffer, PAGE, (off_t)page * PAGE);
}

static void settle(int file, int failed) {
    char path[1024], whole[2200], part[2300], now[PAGE], was[PAGE];
    int i = known(file, path);
    struct stat about;
    if (i < 0 || fstat(file, &about)) return;
    if (about.st_size > (off_t)PAGES * PAGE) abort();
    snprintf(whole, sizeof whole, "%s%s", getenv("DURABLE"), strrchr(path, '/'));
    snprintf(part, sizeof part, "%s.part", whole);
    int old = open(whole, O_RDONLY | O_CLOEXEC);
    int out = failed ? -1 : open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (long page = 0; (off_t)page * PAGE < about.st_size; page++) {
        page_of(file, page, now);
        page_of(old, page, was);
        if (failed && memcmp(now, was, PAGE)) files[i].dropped[page] = 1;
        if (!failed) syscall(SYS_pwrite64, out, files[i].dropped[page] ? was : now, PAGE, (off_t)page * PAGE);
    }
    if (old >= 0) close(old);
    if (failed) return;
    if (ftruncate(out, about.st_size)) abort();
    close(out);
    rename(part, whole); /* all or nothing, for we may be killed here */
}

static int synced(int number, int file) {
    const char *bad = getenv("BADSYNC");
    int failed = bad && !access(bad, F_OK);
    pthread_mutex_lock(&lock);
    int result = failed ? -1 : (int)syscall(number, file);
    if (failed || result == 0) settle(file, failed);
    pthread_mutex_unlock(&lock);
    if (failed) {
        char seen[2200];
        snprintf(seen, sizeof seen, "%s.seen", bad);
        close(open(seen, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        errno = EIO;
    }
    return result;
}

int fsync(int file) { return synced(SYS_fsync, file); }
int fdatasync(int file) { return synced(SYS_fdatasync, file); }

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
    char path[1024];
    pthread_mutex_lock(&lock);
    int i = known(file, path);
    if (i >= 0 && count)
        for (long page = at / PAGE; page <= (long)((at + count - 1) / PAGE) && page < PAGES; page++)
            files[i].dropped[page] = 0;
    ssize_t result = syscall(SYS_pwrite64, file, bytes, count, at);
    pthread_mutex_unlock(&lock);
    return result;
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) { return pwrite64(file, bytes, count, at); }
