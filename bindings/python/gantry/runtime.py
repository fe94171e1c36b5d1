"""The runtime of this process: where channels are found, and what copies."""

from __future__ import annotations

import json
import os
import weakref
from typing import Any

from . import _core


class Runtime:
    """Finds channels in `directory` ($GANTRY_DIR, or the user's own) and copies with `engine`.

    Every end takes one; without it, all share the process's own. It may be pickled, and used in
    children: each process has its own behind it.
    """

    def __init__(self, directory: str | None = None, engine: str | None = None) -> None:
        self._arguments = (directory, engine)
        self._made: _core.Runtime | None = None
        _all.add(self)

    @property
    def _core(self) -> _core.Runtime:
        if self._made is None:
            self._made = _core.Runtime(*self._arguments)
        return self._made

    def channels(self) -> list[dict[str, Any]]:
        """All channels of the directory, as `gantry ls --json` prints them."""
        told: dict[str, Any] = json.loads(self._core.status_json())
        return list(told["channels"])

    def __reduce__(self) -> tuple[Any, tuple[str | None, str | None]]:
        return runtime_of, self._arguments


_all: weakref.WeakSet[Runtime] = weakref.WeakSet()
_known: dict[tuple[str | None, str | None], Runtime] = {}


def runtime_of(directory: str | None, engine: str | None) -> Runtime:
    """The process's own for these."""
    return _known.setdefault((directory, engine), Runtime(directory, engine))


def shared() -> Runtime:
    """The runtime that ends use which are given none; made when it is first asked for."""
    chosen = os.environ.get("GANTRY_DIR", "")
    return runtime_of(chosen if os.path.isabs(chosen) else None, None)  # else the library says why


def _forget() -> None:
    for runtime in _all:
        runtime._made = None


os.register_at_fork(after_in_child=_forget)
