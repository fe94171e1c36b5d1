"""Spans of one's own in traces, and the W3C trace context that goes with calls and items."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from importlib import import_module
from typing import Any, TypeVar, cast

from . import _core
from .errors import InvalidArgument

__all__ = ["context", "span", "traceparent"]
Function = TypeVar("Function", bound=Callable[..., Any])


class span(_core.Span):
    """`with span("decode"):` is in the trace of its thread, under that name; so is each call of
    what `@span("decode")` decorates, a coroutine's with all that it waits for.

    31 bytes of the name are kept. Spans that cross, as those of tasks do, have tracks of their own.
    """

    __slots__ = ()

    def __call__(self, function: Function) -> Function:
        name = self.name
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidArgument(
                f"span '{name}': a generator does its work later, piece by piece",
                "put `with gantry.trace.span(...)` around the piece",
            )
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def traced_coroutine(*arguments: Any, **words: Any) -> Any:
                with _core.Span(name):
                    return await function(*arguments, **words)

            return cast(Function, traced_coroutine)

        @wraps(function)
        def traced(*arguments: Any, **words: Any) -> Any:
            with _core.Span(name):
                return function(*arguments, **words)

        return cast(Function, traced)


# ---- the W3C trace context: https://www.w3.org/TR/trace-context/#traceparent-header

_PREFIX = b"traceparent: "
_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
CARRIED_BYTES = len(_PREFIX) + 55
NOTHING = _PREFIX + b"-" * 55  # behind what would else be taken for something that is carried

# Where the program has no OpenTelemetry, which has a context of its own.
_current: ContextVar[str | None] = ContextVar("gantry.traceparent", default=None)


def _checked(text: object) -> str | None:
    return text if isinstance(text, str) and _FORM.fullmatch(text) else None


@cache
def _opentelemetry() -> tuple[Any, Any] | None:
    try:
        return import_module("opentelemetry.propagate"), import_module("opentelemetry.context")
    except ImportError:
        return None


def traceparent() -> str | None:
    """The trace context that goes with calls and items from here: that of OpenTelemetry's current
    span, if the program has imported it; else that of context()."""
    if "opentelemetry" in sys.modules and (apis := _opentelemetry()) is not None:
        headers: dict[str, Any] = {}
        apis[0].inject(headers)
        return _checked(headers.get("traceparent"))
    return _current.get()


@contextmanager
def context(traceparent: str | None) -> Iterator[None]:
    """Goes on with that trace: it is current for OpenTelemetry, if it can be imported, and goes
    with what is sent. None, and what is no traceparent, changes nothing."""
    valid = _checked(traceparent)
    if valid is None:
        yield
        return
    if (apis := _opentelemetry()) is None:
        ours = _current.set(valid)
        try:
            yield
        finally:
            _current.reset(ours)
        return
    propagate, contexts = apis
    token = contexts.attach(propagate.extract({"traceparent": valid}))
    try:
        yield
    finally:
        contexts.detach(token)


def forget() -> None:
    """In a new process of a pool: what was current where it was forked is not its calls'."""
    _current.set(None)
    if "opentelemetry" in sys.modules and (apis := _opentelemetry()) is not None:
        apis[1].attach(apis[1].Context())


def carried() -> bytes:
    """What goes with a call or an item: its traceparent as bytes; nothing if there is none."""
    current = traceparent()
    return b"" if current is None else _PREFIX + current.encode()


def is_carried(end: memoryview) -> bool:
    """Whether a server takes that for what carried() or NOTHING is."""
    return found(end) is not None or end == NOTHING


def found(end: memoryview) -> str | None:
    """The traceparent that those bytes are. Anybody may have written them."""
    if end.nbytes != CARRIED_BYTES:
        return None
    copy = bytes(end)
    return _checked(copy[len(_PREFIX) :].decode("latin1")) if copy.startswith(_PREFIX) else None
