"""Waiting for a name, which may be misspelt: what ends of this host do in the library."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from logging import getLogger
from typing import TypeVar

from .errors import Error, TimedOut
from .runtime import Runtime

PATIENCE = 2.0  # seconds, as the library's
_MOST = 8  # names that are listed
Opened = TypeVar("Opened")


def is_missing(error: TimedOut) -> bool:
    """Whether nobody has the name; otherwise its owner does not answer."""
    return error.message.endswith("appeared in time")


def open_patiently(
    opening: Callable[[float | None], Opened], timeout: float | None, say: Callable[[TimedOut], None]
) -> Opened:
    """opening(timeout). `say` is called after two seconds without success."""
    is_long = isinstance(timeout, (int, float)) and timeout > PATIENCE
    if timeout is not None and not is_long:  # or it is no number, which it says
        return opening(timeout)
    try:
        return opening(PATIENCE)
    except TimedOut as error:
        say(error)
    return opening(None if timeout is None else timeout - PATIENCE)


def say_what_is_awaited(what: str, name: str, whom: str, runtime: Runtime) -> None:
    """One line, with the names that there are."""
    there = _listed(runtime, name)
    getLogger("gantry").warning("gantry: %s '%s': waiting for %s; there %s", what, name, whom, there)


def _listed(runtime: Runtime, name: str) -> str:
    names: list[str] = []
    with suppress(Error):
        names = sorted(it["name"] for it in runtime.channels() if not it["made_up_name"])
    names = [it for it in names if it != name]
    if not names:
        return "is no other channel"
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{'is' if len(names) == 1 else 'are'} {', '.join(names[:_MOST])}{more}"
