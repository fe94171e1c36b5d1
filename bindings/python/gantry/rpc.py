"""Calls: one server, any number of clients."""

from __future__ import annotations

import threading
import time
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from . import _core, trace
from .ends import AwaitedEnd, open_end
from .errors import Aborted, Error, InvalidArgument, TimedOut, reason_of
from .message import Message
from .readiness import Places, Readiness
from .receiving import ReceivingEnd
from .runtime import Runtime, shared
from .sending import give

_MOST_SEGMENTS = 64  # as gantry.h has it


class Request(Message):
    """A message that somebody waits for an answer to. Dropped, it fails with Aborted there.

    `traceparent`: what gantry.trace.traceparent() was where its client called; serve() goes on
    with that trace. It came as a segment of its own, the last, which does not count here.
    """

    __slots__ = ("_carries", "traceparent")

    def __init__(self, core: _core.Message, allow_pickles: bool) -> None:
        super().__init__(core, allow_pickles)
        last = core.segments - 1
        self._carries = last > 0 and trace.is_carried(self.segment(last))
        self.traceparent = trace.found(self.segment(last)) if self._carries else None

    def __len__(self) -> int:
        return super().__len__() - self._carries

    @property
    def nbytes(self) -> int:
        """Bytes of all segments that len() counts."""
        return super().nbytes - self._carries * trace.CARRIED_BYTES

    def reply(self, value: Any, *, timeout: float | None = 0, type: int = 0) -> None:
        """Answers, once. TimedOut: the client has no room at present."""

        def reply(given: Any, tag: int) -> None:
            # A message that travels on is gone with the first try, and no signal ends that.
            apart = isinstance(given, _core.Message) and timeout != 0
            if apart and threading.current_thread() is threading.main_thread():
                _run_apart(lambda: self._core.reply(given, timeout, tag))
            else:
                self._core.reply(given, timeout, tag)

        give(value, self._pickles, type, reply)

    def refuse(self, why: str, hint: str = "", kind: type[Error] = Aborted) -> None:
        """Fails the client's call with an exception of that kind."""
        self._core.refuse(kind.code, _sendable(why), _sendable(hint))

    def _fail(self, error: BaseException) -> None:
        """However its class was made, the client hears why, if it is there and has room."""
        kind = type(error)  # isinstance() may read an attribute of it, which may raise
        if issubclass(kind, Error):
            with suppress(Exception):
                told = cast(Error, error)
                return self.refuse(str(told.message), str(told.hint), kind)
        with suppress(Exception):
            self.refuse(reason_of(error))

    @property
    def wants_reply(self) -> bool:
        """False once it is answered, cancelled, or past its deadline."""
        return self._core.wants_reply()


def _sendable(text: str) -> str:
    """UTF-8 can say it, and C: a file name that is not UTF-8 is in a str as lone surrogates."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def _run_apart(work: Callable[[], None]) -> None:
    """On another thread, so that a handler that raises ends the wait for it."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised.pop()


class Server(ReceivingEnd[Request]):
    """Takes the name; `for request in server: request.reply(...)`. Options are the Consumer's,
    except when_slow, which would lose requests."""

    _kind = "server"
    _received = Request

    def serve(self, answer: Callable[[Request], Any]) -> None:
        """Answers every request by what `answer` returns, or by what it raises, for ever. A client
        that has no room for a second, or that is gone, does without. SystemExit and
        KeyboardInterrupt go on to the caller, when the client has been told."""
        for request in self:
            try:
                with trace.context(request.traceparent):
                    answered = answer(request)
                request.reply(answered, timeout=1)
            except BaseException as error:
                request._fail(error)
                if not issubclass(type(error), (Exception, CancelledError)):  # no request ends the loop
                    raise
            answered = None
            del request


class Client(AwaitedEnd):
    """Calls a server; waits for it to appear.

    Replies are messages in the server's memory, which has eight places for each client: copy what
    you keep.

    `pickles`: whether any object may be a request, and whether the server is trusted to reply by
    objects. `timeout`: seconds to wait for the server; None: for ever. `options` are those of a
    Producer that are about its requests: slots (calls that may be unanswered, 1 to 64; 8), mode,
    bytes_in_flight, budget_bytes, copy_threads, spin_ns. It has neither consumers nor history.
    """

    def __init__(
        self, server: str, *, runtime: Runtime | None = None, pickles: bool = False,
        timeout: float | None = None, **options: int,
    ) -> None:  # fmt: skip
        self.name = server
        self._pickles = pickles
        self._core: _core.Producer = _core.Producer()
        self._readiness = Readiness(self._core.descriptor)
        # A call that had to wait for room would keep the loop from taking the replies that make it.
        self._slots = options.get("slots", 8)
        self._room = Places(self._slots)
        open_end(self._core, runtime or shared(), "server", server, timeout, options)

    def call(self, value: Any, *, timeout: float | None = None, type: int = 0) -> Message:
        """Sends it and waits for the reply. What its server raises is raised here."""
        call = self._begin(value, timeout, type)
        reply = call.wait(None)
        assert reply is not None
        return Message(reply, self._pickles)

    async def call_async(
        self, value: Any, *, timeout: float | None = None, type: int = 0
    ) -> Message:
        """Any number of tasks may do so. Cancelled, it tells the server."""
        _core.check_timeout(timeout)
        until = None if timeout is None else time.monotonic() + timeout
        if not await self._room.take(timeout):
            raise TimedOut(f"server '{self.name}': {self._slots} calls of this client are unanswered,"
                           f" and it has {self._slots} places",
                           "allow more time, or connect with more slots")  # fmt: skip
        try:
            with self._readiness.lock:
                left = None if until is None else max(until - time.monotonic(), 0)
                call = self._begin(value, left, type)
            reply = await self._readiness.until(lambda: call.wait(0))
        finally:
            await self._room.__aexit__()
        assert reply is not None
        return Message(reply, self._pickles)

    def reconnect(self, timeout: float | None = None) -> None:
        """After PeerGone: to the name's next server."""
        self._core.wait_for_consumers(1, timeout)

    def _begin(self, value: Any, timeout: float | None, tag: int) -> _core.Call:
        carried = _carried_with(value)

        def begin(given: Any, type: int) -> _core.Call:
            if carried:
                given = (*given, carried) if isinstance(given, tuple) else (given, carried)
            return self._core.begin_call(given, timeout, type, 0)

        return give(value, self._pickles, tag, begin)


def _carried_with(value: Any) -> bytes:
    if not isinstance(value, Message):
        return trace.carried()
    has_room = len(value) < _MOST_SEGMENTS  # else it is passed on as it is
    if has_room and (carried := trace.carried()):
        return carried
    if len(value) < 2 or not trace.is_carried(value.segment(len(value) - 1)):
        return b""
    if not has_room:
        raise InvalidArgument(
            "this message: its last segment would be taken for the call's traceparent",
            f"send at most {_MOST_SEGMENTS - 1} segments before such a one",
        )
    return trace.NOTHING
