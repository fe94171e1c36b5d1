"""The sending end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import prod
from operator import index
from sys import getrefcount
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from . import _core, pickles
from .ends import AwaitedEnd, open_end
from .errors import InvalidArgument, TimedOut, Unsupported
from .message import Message, need
from .readiness import Readiness
from .runtime import Runtime, shared

if TYPE_CHECKING:
    import numpy
    import numpy.typing
Given = TypeVar("Given")
_TO_BE_LOOKED_AT = (Message, tuple)  # by give(), without pickles, too


def give(value: Any, allow_pickles: bool, type: int, send: Callable[[Any, int], Given]) -> Given:
    """Gives `value` to `send`; its pickle if that is allowed and needed to get an equal object."""
    if isinstance(value, Message):
        return send(value._core, type)
    if not allow_pickles:
        if isinstance(value, tuple):  # which _core takes for several parts
            raise InvalidArgument("tuple: neither bytes, an array nor a tensor",
                                  "send_parts(*values), or pickles=True at both ends")  # fmt: skip
        return send(value, type)
    raw = pickles.raw_type(value)
    if raw is not None or pickles.comes_back(value):
        try:
            return send(value, type or raw or 0)
        except InvalidArgument:
            if isinstance(value, memoryview):  # which no pickle takes
                raise
    return send(pickles.dumps(value), pickles.TYPE)


def _freeze(array: Any) -> list[Any]:
    """Makes it, and what it is a view of, read-only; returns what was not."""
    frozen = []
    while array is not None:
        flags = getattr(array, "flags", None)
        if getattr(flags, "writeable", False):
            flags.writeable = False  # type: ignore[union-attr]
            frozen.append(array)
        array = getattr(array, "base", None)
    return frozen


class Producer(AwaitedEnd):
    """Sends to a channel's consumers, or (`connect`) to an inbox.

    `pickles`: whether any object may be sent. `timeout`: seconds to wait for an inbox (`connect`)
    or for the bridge of another host (NAME@HOST); a name of this host is taken at once, or refused.
    `options`: slots (messages that may be out, 1 to 64; 8), consumers (at a time, 1 to 32; 1),
    history (messages that a consumer gets first when it joins), mode ("automatic", "whole",
    "pipelined", "streamed", "immutable"), bytes_in_flight (that may be out), budget_bytes (of its
    pool), copy_threads, spin_ns (that a wait polls; -1: it sleeps).
    """

    _kind = "channel"

    def __init__(
        self, name: str, *, runtime: Runtime | None = None, pickles: bool = False,
        timeout: float | None = None, **options: int | str,
    ) -> None:  # fmt: skip
        self._pickles = pickles
        self._open(name, runtime, timeout, options)

    def _open(
        self, name: str, runtime: Runtime | None, timeout: float | None,
        options: dict[str, Any],
    ) -> None:  # fmt: skip
        self.name = name
        core = _core.Producer()
        try:
            open_end(core, runtime or shared(), self._kind, name, timeout, options)
        finally:  # it may be open, and a signal's handler have raised
            if core.is_open:
                self._pool: _core.Pool | None = None
                self._has_pool = True
                self._numpy_handler: object = None
                self._readiness = Readiness(core.descriptor)
                self._core: _core.Producer = core

    @classmethod
    def connect(cls, inbox: str, *, timeout: float | None = None, **options: Any) -> Producer:
        """To an inbox; waits for it to appear, `timeout` seconds at most."""
        return _InboxProducer(inbox, timeout=timeout, **options)

    def wait_for_consumers(self, count: int = 1, timeout: float | None = None) -> None:
        """Waits until so many consumers are here."""
        self._core.wait_for_consumers(count, timeout)

    # Sending.
    def send(
        self, value: Any, *, timeout: float | None = None, type: int = 0, user: int = 0
    ) -> None:
        """Sends bytes, an array, a tensor, a table (what has __arrow_c_array__), or an object if
        pickles are allowed; it is yours again on return. A received message travels on without a
        copy, and is given away: after an error, too, it can neither be read nor be sent again."""
        if self._pickles or isinstance(value, _TO_BE_LOOKED_AT):
            give(value, self._pickles, type, lambda v, tag: self._core.send(v, timeout, tag, user))
        else:
            self._core.send(value, timeout, type, user)

    def send_parts(
        self, *values: Any, timeout: float | None = None, type: int = 0, user: int = 0
    ) -> None:
        """Sends several values as segments of one message."""
        parts = tuple(v._core if isinstance(v, Message) else v for v in values)
        self._core.send(parts, timeout, type, user)

    def move(
        self,
        array: numpy.ndarray[Any, Any],
        *,
        timeout: float | None = None,
        type: int = 0,
        user: int = 0,
    ) -> None:
        """Sends an array that was made within born_here(), without a copy. It turns read-only:
        its readers look at the same memory. Other writable views of it must not be used."""
        pool = self._own_pool()
        block = None if pool is None else pool.find(array)
        if block is None:
            owner: Any = array
            while pool is not None and isinstance(getattr(owner, "base", None), array.__class__):
                owner = owner.base
                if pool.find(owner) is not None:
                    raise InvalidArgument(
                        "move: a part of an array that does not begin where the array does",
                        "move the whole array, or send() the part",
                    )
            raise InvalidArgument(
                "move: the array does not lie in this end's pool",
                "make it in `with producer.born_here():` (from 32 KiB on), or send() it",
            )
        block.describe(array)
        frozen = _freeze(array)
        try:
            self._core.send(block, timeout, type, user)
        except BaseException:
            for owner in reversed(frozen):
                with suppress(ValueError):  # a view of as_strided() stays read-only
                    owner.flags.writeable = True
            raise

    async def send_async(
        self, value: Any, *, timeout: float | None = None, type: int = 0, user: int = 0
    ) -> None:
        """As send(), while the loop goes on. The value must not change until the message has gone,
        also if this is cancelled; the end keeps it until then."""

        def begin(given: Any, tag: int) -> int:
            with self._readiness.lock:
                return self._core.send_async(given, timeout, tag, user)

        ticket = give(value, self._pickles, type, begin)
        late = None if timeout is None else timeout + 0.02
        if not await self._readiness.until(lambda: self._core.has_ended(ticket) or None, late):
            raise TimedOut(f"channel {self.name}: the message was not sent in time")

    # Memory of the channel's.
    @contextmanager
    def loan(
        self,
        shape: SupportsIndex | tuple[SupportsIndex, ...],
        dtype: numpy.typing.DTypeLike = "uint8",
        *,
        timeout: float | None = None,
        type: int = 0,
        user: int = 0,
    ) -> Iterator[numpy.ndarray[Any, Any]]:
        """An array where the readers will see it: published at the end of the `with`, dropped on
        an exception. It turns read-only then. If a view of it is still there, a copy is published
        instead: what is written to that view later reaches nobody."""
        numpy = need("numpy", "python3-numpy")
        try:
            kind = numpy.dtype(dtype)
        except TypeError:
            raise TypeError(
                f"dtype: one of NumPy's is needed, as 'float32', not {dtype!r}"
            ) from None
        lengths = tuple(map(index, shape)) if isinstance(shape, (tuple, list)) else (index(shape),)
        nbytes = prod(lengths) * kind.itemsize
        pool = self._own_pool() if nbytes > 0 and not kind.hasobject else None
        if pool is None:
            array = numpy.empty(lengths, kind)  # an output without a pool copies
            yield array
            self._core.send(array, timeout, type, user)
        else:
            block = pool.allocate(nbytes)
            whole = numpy.ndarray(lengths, kind, block)
            array = whole[...]
            references = getrefcount(whole)  # each view has one, since NumPy gives it that base
            yield array
            block.describe(array)
            array.flags.writeable = False
            is_viewed = getrefcount(whole) > references
            self._core.send(array if is_viewed else block, timeout, type, user)
        array.flags.writeable = False

    @contextmanager
    def born_here(self) -> Iterator[None]:
        """NumPy arrays of 32 KiB or more that are made within lie in the channel's pool, so that
        move() sends them without a copy. In this context (thread, task) only."""
        pool = self._own_pool()
        if pool is None:
            raise Unsupported(f"{self.name}: this output has no pool", "send() copies")
        if self._numpy_handler is None:
            need("numpy", "python3-numpy")
            self._numpy_handler = _core.numpy_handler(pool)
        before = _core.set_numpy_handler(self._numpy_handler)
        try:
            yield
        finally:
            _core.set_numpy_handler(before)

    def _own_pool(self) -> _core.Pool | None:
        if self._pool is None and self._has_pool:
            try:
                self._pool = self._core.pool()
            except Unsupported:
                self._has_pool = False
        return self._pool

    # The end.
    def fileno(self) -> int:
        """Readable when a send_async() may have ended."""
        return self._core.descriptor()

    def close(self, timeout: float | None = None) -> None:
        """Ends the stream, and waits until all of it has been received. Waits for a first consumer
        even if nothing was sent: otherwise that consumer would wait forever. drop() waits for
        nothing. TimedOut: the stream has broken off."""
        if not self._core.is_open:
            return
        try:
            self._core.finish(timeout)
        finally:
            self.drop()

    def drop(self) -> None:
        """Leaves at once: consumers hear that the stream broke off. From any thread."""
        super().close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.drop()


class _InboxProducer(Producer):
    _kind = "inbox"


class _StageOutput(Producer):
    _kind = "gantry run"


def stage_output(name: str, *, pickles: bool = False) -> Producer:
    """The output `name` of this stage of `gantry run`. NotFound: the pipeline file gives it none."""
    return _StageOutput(name, pickles=pickles)
