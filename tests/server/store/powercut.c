/* A disk that forgets what was not synced: after each fsync or fdatasync a copy of the file goes to $POWERCUT.
   Preloaded; what is found there after kill -9 is what a power cut would have left, at worst. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void copy(int file) {
    static char buffer[1 << 16];
    char link[64], path[4096], part[8300], whole[8200];
    const char *folder = getenv("POWERCUT");
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1), got;
    struct stat about;
    if (!folder || length <= 0 || fstat(file, &about) || !S_ISREG(about.st_mode)) return;
    path[length] = 0;
    const char *name = strrchr(path, '/');
    if (!name || strstr(path, folder)) return;
    snprintf(whole, sizeof whole, "%s%s", folder, name);
    snprintf(part, sizeof part, "%s.part", whole);
    int out = open(part, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (out < 0) return;
    for (off_t at = 0; (got = pread(file, buffer, sizeof buffer, at)) > 0; at += got)
        if (write(out, buffer, got) != got) abort();
    close(out);
    rename(part, whole); /* all or nothing, for we may be killed here */
}

static int synced(const char *name, int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int result = real(file);
    if (result == 0) copy(file);
    return result;
}

int fsync(int file) { return synced("fsync", file); }
int fdatasync(int file) { return synced("fdatasync", file); }
