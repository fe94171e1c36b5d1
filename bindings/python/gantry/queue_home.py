"""Where a queue lives: in the process that made it, as long as any process has it."""

from __future__ import annotations

import operator
import os
import secrets
from collections import deque
from multiprocessing import connection, util
from typing import Any

from . import _core
from .errors import InvalidArgument
from .runtime import Runtime

MEMBERS = 1024  # ends at a time, up to four in each process
# Items that a process may hold at a time; also those of its own, above 64 KiB, that may be out:
# waiting in the queue or held by any process.
SLOTS = 64
_COPIED = 1 << 62  # small items never wait in the process that put them


class Home:
    """A queue of work, with a name that nobody else has unless it is given one. `lifeline` is the writing side of a pipe
    that each process holds that has the queue; its reading side tells when none is left."""

    def __init__(self, runtime: Runtime, most_items: int, name: str | None = None) -> None:
        most_items = operator.index(most_items)
        if most_items >= 1 << 64:  # _core would cut it off
            raise InvalidArgument("maxsize: it is beyond 64 bits", "0 for a queue without a limit")
        sweep()
        self.runtime = runtime
        self.name = f"queue-{os.getpid()}-{secrets.token_hex(12)}"  # swept by it when this dies
        if name is not None:
            self.name = name
        self.queue = _core.Queue(runtime._core, self.name, MEMBERS, SLOTS, _COPIED, most_items)
        self._last, self.lifeline = connection.Pipe(duplex=False)

    def retire(self) -> None:
        """This process does not need it any more; others may."""
        self.lifeline.close()
        if util.is_exiting() or self._is_alone():
            self._end()
        else:
            _lingering.append(self)
        sweep()

    def _is_alone(self) -> bool:
        return self._last.poll(0)  # nobody writes: it is the end of the pipe

    def _end(self) -> None:
        self.queue.close()
        self._last.close()


_lingering: deque[Home] = deque()


def sweep() -> None:
    """Ends the queues that no process has any more."""
    for _ in range(len(_lingering)):
        try:
            home = _lingering.popleft()  # no other thread has it now
        except IndexError:
            return
        if home._is_alone():
            home._end()
        else:
            _lingering.append(home)


def _end_all() -> None:
    while _lingering:
        _lingering.pop()._end()


def _forget() -> None:
    """In a child of fork(): they are the parent's."""
    for home in _lingering:
        home._last.close()
    _lingering.clear()


os.register_at_fork(after_in_child=_forget)
_at_exit: Any = util.Finalize(None, _end_all, exitpriority=-30)
