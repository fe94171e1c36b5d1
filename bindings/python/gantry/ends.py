"""What sending and receiving ends have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from ._core import Consumer, Group, Producer
from .errors import InvalidArgument, TimedOut
from .readiness import Readiness
from .runtime import Runtime

Self = TypeVar("Self", bound="End")


class End:
    name: str
    _core: Producer | Consumer | Group

    def close(self) -> None:
        """From any thread: waits of others end."""
        self._core.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "open" if self._core.is_open else "closed"
        return f"<gantry.{type(self).__name__.strip('_')} {self.name}, {state}>"


def open_end(
    core: Consumer | Producer, runtime: Runtime, kind: str, name: str, timeout: float | None,
    options: dict[str, Any],
) -> None:  # fmt: skip
    """Opens it. A producer of another host's channel is given up in time."""

    def opening(left: float | None) -> None:
        core.open(runtime._core, kind, name, left, options)

    if isinstance(core, Producer) and kind == "channel" and "@" in str(name):
        _open_within(core, opening, name, timeout)
    else:
        opening(timeout)


def _open_within(
    core: Consumer | Producer, opening: Callable[[float | None], None], name: str,
    timeout: float | None,
) -> None:  # fmt: skip
    """The library has no deadline there; it listens to close()."""
    if not isinstance(timeout, (int, float)) or not 0 <= timeout < threading.TIMEOUT_MAX:
        return opening(timeout)
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        core.close()

    timer = threading.Timer(timeout, end)
    timer.daemon = True
    timer.start()
    try:
        opening(timeout)
    except InvalidArgument:  # it is closed
        if not is_over.is_set():
            raise
    finally:
        timer.cancel()
        timer.join()
    if is_over.is_set():
        raise TimedOut(f"channel '{name}': the bridge did not take it within {timeout} s",
                       "see whether the bridge runs there and is reached")  # fmt: skip


class AwaitedEnd(End):
    """One that tasks wait for, too."""

    _readiness: Readiness

    def close(self) -> None:
        """From any thread: waits of others end, and those of tasks."""
        if not self._core.is_open:  # in a child of fork() the lock may be another's for ever
            return
        with self._readiness.lock:  # no task looks at a descriptor that is another's by then
            self._core.close()
            self._readiness.wake()
