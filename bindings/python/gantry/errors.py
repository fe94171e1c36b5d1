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
        return self.message.partition(": ")[2]

    def __str__(self) -> str:  # OSError would show it as a pair
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[type[Error], tuple[str, str]]:
        return type(self), (self.message, self.hint)


class InvalidArgument(Error, ValueError):
    code = 1


class NotFound(Error, FileNotFoundError):
    code = 2


class AlreadyExists(Error, FileExistsError):
    code = 3


class PermissionDenied(Error, PermissionError):
    code = 4


class OutOfMemory(Error, MemoryError):
    code = 5


class TooLarge(Error, OverflowError):
    code = 6


class TimedOut(Error, TimeoutError):
    code = 7


class Busy(Error, BlockingIOError):
    code = 8


class Interrupted(Error, InterruptedError):
    code = 9


class Closed(Error, EOFError):
    """The stream is over, and all of it has been received."""

    code = 10


class PeerGone(Error, BrokenPipeError):
    """The other process died, or left without ending the stream."""

    code = 11


class Aborted(Error, ConnectionAbortedError):
    code = 12


class PeerMisbehaved(Error, ConnectionError):
    code = 13


class Unsupported(Error, NotImplementedError):
    code = 14


class SystemRefused(Error, OSError):
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
