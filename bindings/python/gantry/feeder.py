"""What a queue's put() could not hand over at once, and the thread that hands it over later."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from multiprocessing import util
from traceback import print_exception
from typing import Any

from .errors import Closed, PeerGone

_MOST = 256  # at a time: as many go in one message


class Feeder:
    """Sends in the order of append(), and what has gathered in one call. The thread lives only while there is something to send, and
    only it keeps what it sends by: a queue that is dropped goes at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards all that follows
        self._waiting: deque[Any] = deque()
        self._thread: threading.Thread | None = None
        self._at_end: Callable[[], None] | None = None
        self._exit: util.Finalize | None = None
        self.joins_at_exit = True

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        return self._thread is None

    def append(
        self, parts: Any, send: Callable[[list[Any]], int],
        fail: Callable[[BaseException], None] = print_exception,
    ) -> None:  # fmt: skip
        """Keeps a copy: the caller may change what it has put. `send`: sends the first ones of a
        list, and returns how many; it raises what keeps the first from being sent. `fail` is told
        that. Raises if there can be no thread. An exception of a signal's handler that comes when
        the caller's is among what waits has `put` 1."""
        kept = tuple(bytes(p) for p in parts) if isinstance(parts, tuple) else bytes(parts)
        is_in = False
        try:
            with self._lock:
                self._waiting += ((kept, fail),)  # no handler of a signal runs before the next line
                is_in = True
                if self._thread is not None:
                    return
                thread = threading.Thread(
                    target=self._run, args=(send,), name="QueueFeederThread", daemon=True
                )
                try:
                    thread.start()
                except BaseException:  # there are too many: this was not put, what comes later may
                    self._waiting.clear()
                    is_in = False
                    raise
                self._thread = thread
                self._exit = util.Finalize(self, self._join_at_exit, exitpriority=-5)
        except BaseException as error:
            if is_in:
                error.put = 1  # type: ignore[attr-defined]
            raise

    def _run(self, send: Callable[[list[Any]], int]) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    at_end, self._at_end = self._at_end, None
                    if self._exit is not None:
                        self._exit.cancel()
                    break
                fail = self._waiting[0][1]
                parts = [kept for kept, _ in islice(self._waiting, _MOST)]
            sent = 1
            try:
                sent = send(parts)
            except (Closed, PeerGone) as error:  # nobody takes anything any more
                util.info("gantry: queue: %s", error)
                with self._lock:
                    self._waiting.clear()
                continue
            except BaseException as error:  # what is behind it may well go
                try:
                    fail(error)
                except BaseException as of_who_was_told:
                    print_exception(of_who_was_told)
            with self._lock:
                for _ in range(min(sent, len(self._waiting))):
                    self._waiting.popleft()
        if at_end is not None:
            at_end()

    def then(self, at_end: Callable[[], None]) -> None:
        """Calls it when all has been sent, maybe on the feeder's thread."""
        with self._lock:
            if self._thread is not None:
                self._at_end = at_end
                return
        at_end()

    def join(self) -> None:
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _join_at_exit(self) -> None:
        if self.joins_at_exit:
            self.join()
