"""gantry.pipe(): two ends without a name, for a parent and its children."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import _core
from .errors import InvalidArgument, TimedOut
from .message import Message
from .receiving import Consumer
from .runtime import Runtime, shared
from .sending import Producer

if TYPE_CHECKING:
    import numpy
    import numpy.typing
_Arguments = tuple[str, "Runtime | None", bool, dict[str, Any]]


class _Opening:
    """What an end does where it is first used. One that was interrupted, or that ran out of time,
    goes on with the next use."""

    def __init__(self, name: str, step: Callable[[float | None], None]) -> None:
        self._name = name
        self._step = step  # opens within a timeout; may be called again
        self._lock = threading.Lock()
        self.is_over = False
        self.is_closed = False

    def within(self, timeout: float | None) -> float | None:
        """Returns what is left of the time."""
        if self.is_over:
            return timeout
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._lock.acquire(timeout=-1 if timeout is None else timeout):
            raise TimedOut(f"{self._name}: another thread is still opening it")
        try:
            if self.is_closed:
                raise InvalidArgument(f"{self._name}: this end is closed", "make another gantry.pipe()")
            if not self.is_over:
                self._step(_left(deadline))
                self.is_over = True
            return _left(deadline)
        finally:
            self._lock.release()

    async def within_async(self, timeout: float | None) -> float | None:
        """On a thread of its own, which goes on if this is cancelled."""
        if self.is_over:
            return timeout
        loop = asyncio.get_running_loop()
        done: asyncio.Future[float | None] = loop.create_future()

        def settle(left: float | None, error: BaseException | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(left)
            else:
                done.set_exception(error)

        def run() -> None:
            left, raised = None, None
            try:
                left = self.within(timeout)
            except BaseException as error:
                raised = error
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(settle, left, raised)

        threading.Thread(target=run, daemon=True).start()
        return await done


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0)


class PipeWriter(Producer):
    """Opens where it is first used, which waits for the reader; see pipe()."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments: _Arguments = arguments  # type: ignore[assignment]
        self.name, _, self._pickles, _ = self._arguments
        self._opening = _Opening(self.name, self._open_within)

    def _open_within(self, timeout: float | None) -> None:
        if "_core" not in self.__dict__:
            name, runtime, _, options = self._arguments
            self._open(name, runtime, timeout, options)
        self._core.wait_for_consumers(1, timeout)

    def __getattr__(self, attribute: str) -> Any:  # called for what _open() has not set yet
        if attribute not in ("_core", "_pool", "_readiness", "_has_pool", "_numpy_handler"):
            raise AttributeError(attribute)
        self._opening.within(None)
        return self.__dict__[attribute]

    def __reduce__(self) -> tuple[Any, ...]:
        return PipeWriter, self._arguments

    def __repr__(self) -> str:
        return super().__repr__() if "_core" in self.__dict__ else _unopened(self)

    def wait_for_consumers(self, count: int = 1, timeout: float | None = None) -> None:
        super().wait_for_consumers(count, self._opening.within(timeout))

    def send(
        self, value: Any, *, timeout: float | None = None, type: int = 0, user: int = 0
    ) -> None:
        super().send(value, timeout=self._opening.within(timeout), type=type, user=user)

    def send_parts(
        self, *values: Any, timeout: float | None = None, type: int = 0, user: int = 0
    ) -> None:
        super().send_parts(*values, timeout=self._opening.within(timeout), type=type, user=user)

    def move(
        self, array: numpy.ndarray[Any, Any], *, timeout: float | None = None, type: int = 0,
        user: int = 0,
    ) -> None:  # fmt: skip
        super().move(array, timeout=self._opening.within(timeout), type=type, user=user)

    async def send_async(
        self, value: Any, *, timeout: float | None = None, type: int = 0, user: int = 0
    ) -> None:
        left = await self._opening.within_async(timeout)
        await super().send_async(value, timeout=left, type=type, user=user)

    @contextmanager
    def loan(
        self, shape: SupportsIndex | tuple[SupportsIndex, ...],
        dtype: numpy.typing.DTypeLike = "uint8", *, timeout: float | None = None, type: int = 0,
        user: int = 0,
    ) -> Iterator[numpy.ndarray[Any, Any]]:  # fmt: skip
        left = self._opening.within(timeout)
        with super().loan(shape, dtype, timeout=left, type=type, user=user) as array:
            yield array

    def close(self, timeout: float | None = None) -> None:
        if not self._opening.is_closed:
            super().close(self._opening.within(timeout))

    def drop(self) -> None:
        self._opening.is_closed = True
        if "_core" in self.__dict__:
            super().drop()


class PipeReader(Consumer):
    """Opens where it is first used, which waits for the writer; see pipe()."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments: _Arguments = arguments  # type: ignore[assignment]
        self.name, _, self._pickles, _ = self._arguments
        self._opening = _Opening(self.name, self._open_within)
        self._joining: _core.Consumer | None = None

    def _open_within(self, timeout: float | None) -> None:
        self._joining = _core.Consumer()
        self._open(self._joining, self._arguments[1], timeout, {})

    def __getattr__(self, attribute: str) -> Any:
        if attribute not in ("_core", "_readiness"):
            raise AttributeError(attribute)
        self._opening.within(None)
        return self.__dict__[attribute]

    def __reduce__(self) -> tuple[Any, ...]:
        return PipeReader, self._arguments

    def __repr__(self) -> str:
        return super().__repr__() if "_core" in self.__dict__ else _unopened(self)

    def receive(self, timeout: float | None = None) -> Message:
        return super().receive(self._opening.within(timeout))

    async def receive_async(self, timeout: float | None = None) -> Message:
        return await super().receive_async(await self._opening.within_async(timeout))

    def receive_into(self, buffer: Any, timeout: float | None = None) -> int:
        return super().receive_into(buffer, self._opening.within(timeout))

    def rejoin(self, timeout: float | None = None) -> None:
        super().rejoin(self._opening.within(timeout))

    def close(self) -> None:
        self._opening.is_closed = True
        if "_core" in self.__dict__:
            super().close()
        elif self._joining is not None:
            self._joining.close()  # ends the wait of the thread that is opening it


def _unopened(end: PipeReader | PipeWriter) -> str:
    return f"<gantry.{type(end).__name__} {end.name}, not opened yet>"


def pipe(
    *, runtime: Runtime | None = None, pickles: bool = False, **options: int | str
) -> tuple[PipeReader, PipeWriter]:
    """Two ends, like multiprocessing.Pipe(duplex=False): give each to one process, as an argument
    or by fork. Each opens where it is first used, within that use's timeout. `options` are the
    Producer's."""
    runtime = runtime or shared()  # children may have another $GANTRY_DIR
    name = f"pipe-{secrets.token_hex(12)}"
    return (
        PipeReader(name, runtime, pickles, options),
        PipeWriter(name, runtime, pickles, options),
    )
