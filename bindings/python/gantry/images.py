"""Images that a process keeps in memory for all others: `gantry keep`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from . import _core
from .errors import NotFound
from .message import Message
from .runtime import Runtime, shared


class Image(Mapping[str, Message]):
    """An image by its tensors' names. What is taken out is a Message of one segment, with .array,
    .torch() and .data, in memory that all processes of the host share; it outlives this.
    `name` is the image's.
    """

    __slots__ = ("_core", "_names", "name")

    def __init__(
        self, name: str, *, runtime: Runtime | None = None, timeout: float | None = None
    ) -> None:
        self.name = name
        self._core = _core.Image((runtime or shared())._core, name, timeout)
        self._names = dict.fromkeys(self._core.names())  # in the order of their bytes

    def __getitem__(self, tensor: str) -> Message:
        try:
            return Message(self._core.tensor(tensor), False)
        except NotFound as error:
            raise KeyError(str(error)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, tensor: object) -> bool:
        return tensor in self._names

    def __repr__(self) -> str:
        return f"<gantry.Image '{self.name}': {len(self)} tensors>"


def image(
    name: str, *, runtime: Runtime | None = None, timeout: float | None = None
) -> Image:
    """Attaches the image of that name; waits for its keeper, and for it to be loaded. In a stage of
    `gantry run` the name is one of [images] in the pipeline file; another is NotFound at once.
    """
    return Image(name, runtime=runtime, timeout=timeout)
