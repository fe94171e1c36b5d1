"""The receiving ends."""

from __future__ import annotations

from collections.abc import Callable
from logging import getLogger
from typing import Any, Generic, TypeVar

from . import _core
from .ends import AwaitedEnd, open_end
from .errors import Closed, InvalidArgument, TimedOut
from .message import LookedMessage, Message
from .readiness import Readiness
from .runtime import Runtime, shared

_PATIENCE = 2.0  # of a wait without a timeout, before it says what this process could change
_SLOTS = 8  # of each sender at an inbox or a server, unless it was opened with another number
WHEN_SLOW = ("block", "drop_newest", "disconnect", "drop_oldest")
Received = TypeVar("Received", bound=Message)
Result = TypeVar("Result")


class ReceivingEnd(AwaitedEnd, Generic[Received]):
    """What a Consumer, an Inbox and a server have in common."""

    _kind = "channel"
    _has_said = False  # that this process holds all that may be out
    _received: type[Received]  # what is made of a message

    def __init__(
        self, name: str, *, runtime: Runtime | None = None, pickles: bool = False,
        timeout: float | None = None, when_slow: str = "block", **options: int,
    ) -> None:  # fmt: skip
        if when_slow not in WHEN_SLOW:
            raise InvalidArgument(f"when_slow: '{when_slow}'", "one of " + ", ".join(WHEN_SLOW))
        self.name = name
        self._pickles = pickles
        if when_slow != "block":
            options["when_slow"] = WHEN_SLOW.index(when_slow)
        self._open(_core.Consumer(), runtime, timeout, options)

    def _open(
        self, core: _core.Consumer, runtime: Runtime | None, timeout: float | None,
        options: dict[str, int],
    ) -> None:  # fmt: skip
        try:
            open_end(core, runtime or shared(), self._kind, self.name, timeout, options)
        finally:  # it may be open, and a signal's handler have raised
            if core.is_open:
                self._readiness = Readiness(core.descriptor)
                self._core: _core.Consumer = core

    def receive(self, timeout: float | None = None) -> Received:
        """Waits for the next one. While this process holds as many messages as may be out, none
        comes: TimedOut says so, and a wait without a timeout says so after two seconds, once, by
        logging.getLogger("gantry")."""
        try:
            core = self._core.receive(_PATIENCE if timeout is None else timeout)
            return self._received(core or self._core.receive_now(), self._pickles)
        except TimedOut as error:
            self._keep_waiting(error, timeout)
        core = self._core.receive(None)
        assert core is not None
        return self._received(core, self._pickles)

    async def receive_async(self, timeout: float | None = None) -> Received:
        """receive() for a task of asyncio."""
        _core.check_timeout(timeout)
        core = await self._readiness.until(
            lambda: self._core.receive(0), _PATIENCE if timeout is None else timeout
        )
        if core is None:
            try:
                with self._readiness.lock:
                    core = self._core.receive_now()
            except TimedOut as error:
                self._keep_waiting(error, timeout)
                core = await self._readiness.until(lambda: self._core.receive(0))
        assert core is not None
        return self._received(core, self._pickles)

    def _keep_waiting(self, error: TimedOut, timeout: float | None) -> None:
        """Raises the error if a timeout is over; otherwise says once what the caller holds."""
        held = self._core.held
        if self._kind == "server":  # which is an inbox to the library here
            error = TimedOut(error.message.replace("inbox '", "server '", 1), error.hint)
        if self._kind in ("inbox", "server") and held > 0:  # which do not know their senders' slots
            error = TimedOut(
                f"{error.message}: this reader holds {held}; a sender can send no more while all of"
                " its slots are among them",
                "let go of messages that were received, and of what looks into them; or copy them",
            )
        if timeout is not None:
            raise error from None
        is_full = self._kind not in ("inbox", "server") or held >= _SLOTS
        if is_full and "this reader holds" in error.message and not self._has_said:
            self._has_said = True
            getLogger("gantry").warning("gantry: %s", error)

    def __iter__(self) -> Messages[Received]:
        """Until the stream ends."""
        return Messages(self)

    def __aiter__(self) -> Messages[Received]:
        return Messages(self)

    def fileno(self) -> int:
        """Readable when receive(0) may have an answer."""
        return self._core.descriptor()

    def close(self) -> None:
        """Messages stay valid. From any thread: waits of others and of tasks end."""
        super().close()


class Messages(Generic[Received]):
    """Not a generator, which would hold each message until it is asked for the next."""

    def __init__(self, end: ReceivingEnd[Received]) -> None:
        self._end = end

    def __iter__(self) -> Messages[Received]:
        return self

    def __next__(self) -> Received:
        try:
            return self._end.receive()
        except Closed:
            raise StopIteration from None

    async def __anext__(self) -> Received:
        try:
            return await self._end.receive_async()
        except Closed:
            raise StopAsyncIteration from None


class Consumer(ReceivingEnd[Message]):
    """Joins a channel, and waits for its producer to appear.

    `pickles`: whether senders are trusted to send objects, which run code of theirs here.
    `timeout`: seconds to wait for the producer; None: for ever. `when_slow`: what the producer does
    while this end has all the messages that it may have: "block" (it waits), "drop_newest" (the
    message goes to others only), "disconnect" (this end is cut off, and gets PeerGone), or
    "drop_oldest" (the oldest message that was not received is taken back).
    `options`: depth (messages that it may hold, from 1 to the producer's slots, which a larger
    number means, too; 0: all of them, or half of them unless when_slow is "block". With
    "drop_oldest" give 1 or 2: it receives the oldest of those first), senders (of an inbox, or
    clients of a server, 1 to 4096; 64), spin_ns (that a wait polls; -1: it sleeps at once).
    """

    _received = Message

    def look(self, function: Callable[[Message], Result], timeout: float | None = None) -> Result:
        """Calls function(message) with the next message where it lies, without a copy, and returns
        what the function returns. Waits as receive(). Then the message and its memoryviews are
        invalid. The function must not keep an array or a slice: InvalidArgument says so, and the
        look goes on until those are gone. Meanwhile, and within the function, calls of this end
        that receive raise Busy; it may send, and close this end."""
        try:
            core = self._core.look(_PATIENCE if timeout is None else timeout)
        except TimedOut as error:
            self._keep_waiting(error, timeout)
            core = self._core.look(None)
        message = LookedMessage(core, self._pickles)
        try:
            result = function(message)
        except BaseException:
            message.end()  # unless the exception holds an array
            raise
        if not message.end():
            raise InvalidArgument(
                "the function that look() called: it has kept an array or a slice of the message",
                "copy what you keep, by bytes(message) or array.copy(); or receive() the message",
            )
        return result

    def receive_into(self, buffer: Any, timeout: float | None = None) -> int:
        """Copies the next message into a writable buffer; returns its size. Waits as receive()."""
        try:
            return self._core.receive_into(buffer, _PATIENCE if timeout is None else timeout)
        except TimedOut as error:
            self._keep_waiting(error, timeout)
        return self._core.receive_into(buffer, None)

    def rejoin(self, timeout: float | None = None) -> None:
        """After PeerGone: joins the name's next producer."""
        self._core.rejoin(timeout)


class Inbox(Consumer):
    """Takes the name; any number of producers connect to it. Options are the Consumer's; `timeout`
    means nothing here, since the name is taken at once, or refused."""

    _kind = "inbox"


class _StageInput(Consumer):
    _kind = "gantry run"


def stage_input(name: str, *, pickles: bool = False) -> Consumer:
    """The input `name` of this stage of `gantry run`. NotFound: the pipeline file gives it none."""
    return _StageInput(name, pickles=pickles)
