"""Objects as messages: pickle protocol 5, its large buffers as segments of their own."""

from __future__ import annotations

import copyreg
import pickle
from array import array
from collections import ChainMap
from collections.abc import Callable, Sequence
from io import BytesIO
from multiprocessing.reduction import ForkingPickler
from typing import Any, cast

from . import trace
from ._core import Message, encode_array, encode_item
from .errors import InvalidArgument, PeerMisbehaved, reason_of

TYPE = 0x50_59_4F_42  # "BOYP" in memory: the type of a message that is a pickled object
# Types of messages whose elements are those of such an object; nothing of it is pickled.
_RAW: dict[type, int] = {
    bytes: 0x53_54_59_42, bytearray: 0x41_54_59_42, memoryview: 0x57_49_56_4D, array: 0x59_52_52_41,
}  # fmt: skip
_CHARACTERS = 0x63_49_56_4D  # a memoryview of the format 'c', whose elements are no numbers
_LONGS = {"l": 0x6C_52_52_41, "L": 0x4C_52_52_41}  # arrays of these, which arrive as 'q' and 'Q'
_MADE: dict[int, Callable[[memoryview], Any]] = {
    _RAW[bytes]: bytes, _RAW[bytearray]: bytearray, _RAW[memoryview]: memoryview,
    _RAW[array]: lambda view: array(view.format, view.tobytes()),
    _CHARACTERS: lambda view: view.cast("B").cast("c", view.shape or ()),
    _LONGS["l"]: lambda view: array("l", view.tobytes()),
    _LONGS["L"]: lambda view: array("L", view.tobytes()),
}  # fmt: skip
_SMALL = 4096  # smaller buffers stay in the stream
MOST_BATCHED_ITEM = 4096  # bytes; as gantry/queue.h has it
_MOST = 62  # besides the stream, and what goes with a call


def _stay_or_leave(
    buffers: list[pickle.PickleBuffer], most: int
) -> Callable[[pickle.PickleBuffer], bool]:
    def stays_in_stream(buffer: pickle.PickleBuffer) -> bool:
        with memoryview(buffer) as view:
            if view.nbytes < _SMALL or len(buffers) == most or not view.contiguous:
                return True
        buffers.append(buffer)
        return False

    return stays_in_stream


def raw_type(value: Any) -> int | None:
    """The type of a message that has the elements of `value` and nothing else; None: a message
    needs more to become an equal object."""
    raw = _RAW.get(type(value))
    if raw == _RAW[array]:
        return _LONGS.get(value.typecode, raw)
    if raw == _RAW[memoryview] and value.format in ("c", "<c") and 0 not in value.shape:
        return _CHARACTERS
    return raw


def comes_back(value: Any) -> bool:
    """Whether a message of its elements says all of it: an array or a tensor, not of a subclass that
    knows more, and no buffer of another kind, which would come back as an array."""
    of = type(value)
    if (of.__module__, of.__qualname__) == ("numpy", "ndarray"):
        return value.dtype.metadata is None
    return (
        hasattr(of, "__dlpack__") and of.__module__.partition(".")[0] != "numpy"
    ) or hasattr(of, "__arrow_c_array__")  # fmt: skip


def made_of(kind: int, elements: Callable[[], memoryview]) -> Any:
    """The object that was sent as a message of that type; NotImplemented: none was."""
    make = _MADE.get(kind)
    return NotImplemented if make is None else make(elements())


def dumps(value: Any) -> tuple[Any, ...]:
    """The stream and the buffers."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        stream = pickle.dumps(value, protocol=5, buffer_callback=_stay_or_leave(buffers, _MOST))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidArgument(
            f"{type(value).__name__}: it cannot be pickled ({reason_of(error)})",
            "bytes(value) for the bytes of an array of ctypes; otherwise an object of a class that"
            " the receiver can import",
        ) from error
    return (stream, *(buffer.raw() for buffer in buffers))


def loads(segments: Sequence[memoryview]) -> Any:
    return pickle.loads(segments[0], buffers=segments[1:])


# ---- between processes of one program: connections, locks, queues may be in it

_END = b"."  # of each pickle; what stands behind it does not count
_PLAIN = frozenset((bytes, str, int, float, bool, type(None)))


class _Pickler(pickle.Pickler):
    """Knows what multiprocessing can pass on to a process that runs already."""

    dispatch_table: Any = ChainMap(
        cast(Any, ForkingPickler)._extra_reducers, cast(Any, copyreg.dispatch_table)
    )


_arrays: set[type] = set()  # NumPy's, once one was seen
_own: Any = cast(Any, ForkingPickler)._extra_reducers  # multiprocessing's reducers


def _is_array(kind: type) -> bool:
    if kind.__module__ != "numpy" or kind.__qualname__ != "ndarray":
        return False
    _arrays.add(kind)
    return True


def dumps_item(value: Any, carried: bytes = b"") -> Any:
    """The stream with `carried` behind it, or a tuple of that and the buffers. Small plain values,
    tuples of them and arrays of numbers have a code of their own (core/item_code.h)."""
    kind = type(value)
    if kind in _PLAIN or kind is tuple:
        coded = encode_item(value)
        if coded is not None:
            return coded + carried if carried else coded
        if kind is not tuple:
            return pickle.dumps(value, 5) + carried
    if (kind in _arrays or _is_array(kind)) and kind not in _own and value.nbytes < _SMALL:
        coded = encode_array(value) if value.dtype.metadata is None else None
        if coded is not None:
            return coded + carried if carried else coded
        if not value.dtype.hasobject:
            return pickle.dumps(value, 5) + carried
    buffers: list[pickle.PickleBuffer] = []
    stream = BytesIO()
    _Pickler(stream, 5, buffer_callback=_stay_or_leave(buffers, _MOST)).dump(value)
    stream.write(carried)
    if buffers:
        return (stream.getbuffer(), *(buffer.raw() for buffer in buffers))
    return stream.getvalue()


def loads_item(core: Message, copies: bool) -> tuple[Any, str | None]:
    """The object, and the traceparent that came with it. `copies`: leaves nothing in the message's
    memory."""
    plain = core.item()
    if plain is not None:
        value, used = plain
        return value, None if used == core.bytes else _behind(core, used)
    stream = memoryview(cast(Any, core.segment(0, True)))
    carried = None if stream[-1:] == _END else trace.found(stream[-trace.CARRIED_BYTES :])
    if core.segments == 1:
        return pickle.loads(stream), carried
    buffers = [memoryview(cast(Any, core.segment(i, True))) for i in range(1, core.segments)]
    return pickle.loads(stream, buffers=map(bytearray, buffers) if copies else buffers), carried


def _behind(core: Message, used: int) -> str:
    """The traceparent behind a plain value: nothing else may be there."""
    rest = memoryview(cast(Any, core.segment(0, True)))[used:]
    found = trace.found(rest)
    if found is None:
        raise PeerMisbehaved(
            f"queue: {rest.nbytes} bytes behind an item that are none of its own",
            "all that put into it use gantry.Queue of this version",
        )
    return found


def is_small(parts: Any) -> bool:
    """Whether an item may go with others in one message."""
    return isinstance(parts, (bytes, memoryview)) and len(parts) <= MOST_BATCHED_ITEM
