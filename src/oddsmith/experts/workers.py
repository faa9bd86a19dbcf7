"""Workers: threads that stay between calls, for code that may take longer than the caller waits."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

__all__ = ["Workers"]

Job = Callable[[], None]


class Workers:
    """As many daemon threads as jobs ran at once so far; a job that hangs keeps its thread, the next one gets another.

    A job must not raise.

    >>> done: SimpleQueue[int] = SimpleQueue()
    >>> workers = Workers()
    >>> workers.run(lambda: done.put(1))
    >>> done.get()
    1
    >>> workers.close()
    """

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[Job | None]] = []  # the inboxes of threads that wait, last come first served
        self._lock, self._closed = threading.Lock(), False

    def run(self, job: Job) -> None:
        """Start `job` in a thread, and return."""
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = SimpleQueue()
            threading.Thread(target=self._work, args=(inbox,), name="oddsmith-expert", daemon=True).start()
        inbox.put(job)

    def close(self) -> None:
        """End the threads that wait; one with a job ends after it."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for inbox in idle:
            inbox.put(None)

    def _work(self, inbox: "SimpleQueue[Job | None]") -> None:
        while (job := inbox.get()) is not None:
            job()
            job = None  # a thread that waits must not keep what it worked on alive
            with self._lock:
                if self._closed:
                    return
                self._idle.append(inbox)
