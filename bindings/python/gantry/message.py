"""A received message, and its bytes as whatever they are wanted as."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import _core, pickles
from .errors import InvalidArgument, PermissionDenied, Unsupported
from .tables import Table

if TYPE_CHECKING:
    import numpy


_view_of: Callable[[Any], memoryview] = memoryview  # of what mypy does not know to be a buffer


def need(module: str, package: str) -> Any:
    """The module, or an error that says where it comes from."""
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise Unsupported(
            f"{name}: it cannot be imported ({error})",
            f"install {package}, or pip install {name}; message.data needs neither",
        ) from error


def _import_asarray(view: memoryview) -> numpy.ndarray[Any, Any]:
    global _asarray
    _asarray = need("numpy", "python3-numpy").asarray
    return _asarray(view)


# Imported by the first array: programs without NumPy have none.
_asarray: Callable[[memoryview], numpy.ndarray[Any, Any]] = _import_asarray


def as_array(memory: _core.Memory) -> numpy.ndarray[Any, Any]:
    try:
        return _asarray(_view_of(memory))  # of the memory itself NumPy would make an object
    except BufferError as error:
        tensor = memory.tensor
        if tensor is None or tensor[:3] not in _ML_DTYPES:
            raise InvalidArgument(f"this message: {error}", "message.data has the bytes") from None
        return _as_ml_dtypes(memory, _ML_DTYPES[tensor[:3]], tensor[3])


# Types that NumPy itself has not, by DLPack's code, bits and lanes: of the package ml_dtypes.
_ML_DTYPES = {
    (4, 16, 1): "bfloat16", (7, 8, 1): "float8_e3m4", (8, 8, 1): "float8_e4m3",
    (9, 8, 1): "float8_e4m3b11fnuz", (10, 8, 1): "float8_e4m3fn", (11, 8, 1): "float8_e4m3fnuz",
    (12, 8, 1): "float8_e5m2", (13, 8, 1): "float8_e5m2fnuz", (14, 8, 1): "float8_e8m0fnu",
}  # fmt: skip


def _as_ml_dtypes(
    memory: _core.Memory, name: str, shape: tuple[int, ...]
) -> numpy.ndarray[Any, Any]:
    found = need("numpy", "python3-numpy")
    try:
        dtype = found.dtype(getattr(import_module("ml_dtypes"), name))
    except (ImportError, AttributeError) as error:
        raise InvalidArgument(
            f"this message: NumPy has no {name}, and ml_dtypes cannot be used ({error})",
            "pip install ml_dtypes; message.torch() makes a tensor of it, message.data has the "
            "bytes",
        ) from None
    array: numpy.ndarray[Any, Any]
    if 0 in shape:  # of which NumPy takes no buffer
        array = found.empty(shape, dtype)
        return array
    try:
        array = found.frombuffer(memory, dtype).reshape(shape)
    except BufferError as error:  # gaps, or another order
        raise InvalidArgument(f"this message: {error}", "message.data has the bytes") from None
    return array


def as_torch(memory: _core.Memory) -> Any:
    dlpack = need("torch.utils.dlpack", "python3-torch")
    return dlpack.from_dlpack(memory.dlpack(False))  # the form that all versions know


class Message:
    """What was received. Its memory is the sender's, and is read-only.

    It goes back to the sender when this and every array, tensor and memoryview of it are gone, in
    whatever thread they were.
    """

    __slots__ = ("_core", "_pickles")

    def __init__(self, core: _core.Message, allow_pickles: bool) -> None:
        self._core = core
        self._pickles = allow_pickles

    # What the sender said of it.
    @property
    def sequence(self) -> int:
        """Its number in its channel, from 1."""
        return self._core.sequence

    @property
    def type(self) -> int:
        """The number that the sender gave as `type`, or what says how to read an object."""
        return self._core.type

    @property
    def user(self) -> int:
        """The number that the sender gave as `user`."""
        return self._core.user

    @property
    def sender(self) -> int:
        """The number of the sender at this inbox or server, from 1; else 0."""
        return self._core.sender

    @property
    def sender_uid(self) -> int:
        """The sender's user at this inbox or server, as the kernel says."""
        return self._core.sender_uid

    @property
    def sender_pid(self) -> int:
        """The sender's process at this inbox or server, as the kernel says."""
        return self._core.sender_pid

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return self._core.bytes

    def __len__(self) -> int:
        """The number of segments."""
        return self._core.segments

    # What it holds. `index` is the segment's.
    @property
    def data(self) -> memoryview:
        """The bytes of the first segment."""
        return _view_of(self._core.segment(0, True))

    def segment(self, index: int) -> memoryview:
        """The bytes of a segment."""
        return _view_of(self._core.segment(index, True))

    def __bytes__(self) -> bytes:
        return b"".join(self.segment(index) for index in range(len(self)))

    @property
    def array(self) -> numpy.ndarray[Any, Any]:
        """The first segment as a read-only ndarray where the sender wrote."""
        core = self._core
        return as_array(core.segment(0, False) if core.segments else self._nothing())

    def arrays(self, index: int) -> numpy.ndarray[Any, Any]:
        """A segment as `array` is of the first."""
        return as_array(self._core.segment(index, False) if len(self) else self._nothing())

    def private(self, index: int = 0) -> numpy.ndarray[Any, Any]:
        """A writable ndarray. Pages that are written become this process's own copies."""
        return as_array(self._core.view(index))

    def torch(self, index: int = 0, *, private: bool = False) -> Any:
        """A tensor. Torch has no read-only ones: to write to this one ends the process by SIGSEGV,
        unless it is `private`, which copies the pages that are written."""
        memory = self._core.view(index) if private else self._core.segment(index, False)
        return as_torch(memory)

    def table(self, index: int = 0) -> Table:
        """The table that begins in a segment, which is where the sender's buffers are looked at.
        pyarrow.record_batch(message.table()), and whatever else takes __arrow_c_array__."""
        return Table(self._core.table(index))

    def object(self) -> Any:
        """An object equal to what the sender gave to send(); an array for any object with
        __dlpack__, a tensor or of a class of one's own. Objects come if the consumer was opened
        with pickles=True: unpickling runs what the sender wants."""
        core = self._core
        made = pickles.made_of(core.type, lambda: _view_of(core.segment(0, False)))
        if made is not NotImplemented:
            return made
        if core.type != pickles.TYPE:
            return self.array if len(self) else None
        if not self._pickles:
            raise PermissionDenied(
                "this message: it is a pickled object, and this end takes none",
                "open it with pickles=True if you trust every sender with this process",
            )
        return pickles.loads([self.segment(index) for index in range(len(self))])

    # DLPack: numpy.from_dlpack(message), torch.from_dlpack(message)
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if copy or (dl_device is not None and dl_device[0] != 1):
            raise BufferError("a message is memory of the host, and is not copied")
        versioned = max_version is not None and max_version[0] >= 1
        return self._core.segment(0, False).dlpack(versioned)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        return f"<gantry.Message {self.sequence}: {len(self)} segments, {self.nbytes} bytes>"

    @staticmethod
    def _nothing() -> Any:
        return b""


class LookedMessage(Message):
    """A message during Consumer.look()."""

    __slots__ = ("_views",)

    def __init__(self, core: _core.Message, allow_pickles: bool) -> None:
        super().__init__(core, allow_pickles)
        self._views: list[memoryview] = []

    @property
    def data(self) -> memoryview:
        return self.segment(0)

    def segment(self, index: int) -> memoryview:
        view = super().segment(index)
        self._views.append(view)
        return view

    def end(self) -> bool:
        """False: an array or a slice is kept."""
        for view in self._views:
            with suppress(BufferError):  # an array lies in it
                view.release()
        return self._core.end_look()
