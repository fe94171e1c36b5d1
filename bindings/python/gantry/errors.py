"""What goes wrong, as exceptions that say what, why, and how to mend it."""

from __future__ import annotations

import re

from . import _core


class Error(Exception):
    """Any error of Gantry's. Its subclasses are also those that people catch anyway."""

    code = 15

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.hint = hint

    @property
    def what(self) -> str:
        """The thing that it is about."""
        return self.message.partition(": ")[0]

    @property
    def why(self) -> str:
        """What is wrong with it."""
        return self.message.partition(": ")[2]

    def __str__(self) -> str:  # OSError would show it as a pair
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[type[Error], tuple[str, str]]:
        return type(self), (self.message, self.hint)


def reason_of(error: BaseException) -> str:
    """What somebody else is told, whatever the exception's own text does."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as of_its_text:
        return f"{type(error).__name__}, whose text raises {type(of_its_text).__name__}"


class InvalidArgument(Error, ValueError):
    """What was asked for cannot be: a value, its type, or an end in a state that does not allow it."""

    code = 1


class NotFound(Error, FileNotFoundError):
    """There is nothing with that name."""

    code = 2


class AlreadyExists(Error, FileExistsError):
    """Another process has that name."""

    code = 3


class PermissionDenied(Error, PermissionError):
    """The other process, or the system, does not allow it."""

    code = 4


class OutOfMemory(Error, MemoryError):
    """There is no memory, or the budget of a pool is used up."""

    code = 5


class TooLarge(Error, OverflowError):
    """It is beyond a limit; the hint names the limit."""

    code = 6


class TimedOut(Error, TimeoutError):
    """The timeout is over. Nothing is lost: the call can be made again."""

    code = 7


class Busy(Error, BlockingIOError):
    """What is needed is in use by others or by this process; try again when some was given back."""

    code = 8


class Interrupted(Error, InterruptedError):
    """A wait was ended before what it waited for."""

    code = 9


class Closed(Error, EOFError):
    """The stream is over, and all of it has been received."""

    code = 10


class PeerGone(Error, BrokenPipeError):
    """The other process died, or left without ending the stream."""

    code = 11


class Aborted(Error, ConnectionAbortedError):
    """A request was refused or dropped by its server, or a message was given up half-way."""

    code = 12


class PeerMisbehaved(Error, ConnectionError):
    """The other process broke the rules of the protocol; its session is over."""

    code = 13


class Unsupported(Error, NotImplementedError):
    """This build, machine or kind of object cannot do it."""

    code = 14


class SystemRefused(Error, OSError):
    """A system call failed; the message has the reason of the system."""

    code = 15


_BY_CODE: dict[int, type[Error]] = {
    kind.code: kind
    for kind in (InvalidArgument, NotFound, AlreadyExists, PermissionDenied, OutOfMemory, TooLarge,
                 TimedOut, Busy, Interrupted, Closed, PeerGone, Aborted, PeerMisbehaved,
                 Unsupported, SystemRefused)
}  # fmt: skip


# What the library says is meant for C and C++: the same in Python's words, by the first that fits.
_OPTIONS = "slots|consumers|history|copy_threads|spin_ns|bytes_in_flight|budget_bytes|mode|depth"
_WORDS = [
    (rf"\b\w+Options::(?:channel\.)?({_OPTIONS}|when_slow)\b", r"\1="),
    (r"\b(?:InboxOptions::producers|ServerOptions::clients)\b", "senders="),
    (r"\bGroupOptions::token\b", "token="),
    (r"\bSlowConsumer::(\w+)", r"when_slow='\1'"),
    (r"\bProducer::pool\(\)(?:: Draft::move\(\))?", "loan() or born_here()"),
    (r"\bDraft::copy\(\)", "send()"),
    (r"\b(?:[A-Z]\w*::)+(\w+(?:\(\))?)", r"\1 (in C++ only)"),
    (r"\bgantry_(?:producer|consumer|send)_options: ", ""),
    (r"\bgantry_(?:producer|consumer)_descriptor\b", "fileno"),
    (r"\bgantry_producer_pool\b", "born_here"),
    (r"\bgantry_loan_\w+", "loan"),
    (r"\bgantry_call_begin\b", "call"),
    (r"\bgantry_client_connect\b", "rpc.Client"),
    (r"\bgantry_server_open\b", "rpc.Server"),
    (r"\bgantry_(?:producer_|consumer_)?(\w+)", r"\1"),
]  # fmt: skip


def _in_python(text: str) -> str:
    if "::" in text or "gantry_" in text:
        for theirs, ours in _WORDS:
            text = re.sub(theirs, ours, text)
    return text


def _make(code: int, message: str, hint: str) -> Error:
    return _BY_CODE.get(code, SystemRefused)(_in_python(message), _in_python(hint))


_core.set_error_factory(_make)
