"""What sending and receiving ends have in common."""

from __future__ import annotations

from types import TracebackType
from typing import Any, TypeVar

from ._core import Consumer, Group, Producer
from .names import open_patiently, say_what_is_awaited
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
    options: dict[str, Any], whom: str,
) -> None:  # fmt: skip
    """Opens it; of another host's name says what is awaited, which the library does of this one's."""

    def opening(left: float | None) -> None:
        core.open(runtime._core, kind, name, left, options)

    if "@" in name:
        open_patiently(
            opening, timeout, lambda _: say_what_is_awaited("channel", name, whom, None)
        )
    else:
        opening(timeout)


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
