"""gantry.pipe(): two ends without a name, for a parent and its children."""

from __future__ import annotations

import secrets
from typing import Any

from .receiving import Consumer
from .runtime import Runtime, shared
from .sending import Producer

_Arguments = tuple[str, "Runtime | None", bool, dict[str, int]]


class PipeWriter(Producer):
    """Opens where it is first used, which waits for the reader; see pipe()."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments: _Arguments = arguments  # type: ignore[assignment]

    def __getattr__(self, attribute: str) -> Any:  # called for what _open() has not set yet
        if attribute not in ("name", "_core", "_pool", "_in_flight", "_readiness", "_pickles",
                             "_has_pool", "_numpy_handler"):  # fmt: skip
            raise AttributeError(attribute)
        name, runtime, self._pickles, options = self._arguments
        self._open(name, runtime, None, options)
        self._core.wait_for_consumers(1, None)
        return self.__dict__[attribute]

    def __reduce__(self) -> tuple[Any, ...]:
        return PipeWriter, self._arguments


class PipeReader(Consumer):
    """Opens where it is first used, which waits for the writer; see pipe()."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments: _Arguments = arguments  # type: ignore[assignment]

    def __getattr__(self, attribute: str) -> Any:
        if attribute not in ("name", "_core", "_readiness", "_pickles"):
            raise AttributeError(attribute)
        name, runtime, allow, _ = self._arguments
        super().__init__(name, runtime=runtime, pickles=allow)
        return self.__dict__[attribute]

    def __reduce__(self) -> tuple[Any, ...]:
        return PipeReader, self._arguments


def pipe(
    *, runtime: Runtime | None = None, pickles: bool = False, **options: int
) -> tuple[PipeReader, PipeWriter]:
    """Two ends, like multiprocessing.Pipe(duplex=False): give each to one process, as an argument
    or by fork. Each opens where it is first used. `options` are the Producer's."""
    runtime = runtime or shared()  # children may have another $GANTRY_DIR
    name = f"pipe-{secrets.token_hex(12)}"
    return (
        PipeReader(name, runtime, pickles, options),
        PipeWriter(name, runtime, pickles, options),
    )
