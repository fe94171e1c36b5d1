"""Objects as messages: pickle protocol 5, its large buffers as segments of their own."""

from __future__ import annotations

import copyreg
import pickle
from collections import ChainMap
from collections.abc import Callable, Sequence
from io import BytesIO
from multiprocessing.reduction import ForkingPickler
from typing import Any, cast

from . import trace
from ._core import Message

TYPE = 0x50_59_4F_42  # "BOYP" in memory: the type of a message that is a pickled object
_SMALL = 4096  # smaller buffers stay in the stream
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


def dumps(value: Any) -> tuple[Any, ...]:
    """The stream and the buffers."""
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(value, protocol=5, buffer_callback=_stay_or_leave(buffers, _MOST))
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


def dumps_item(value: Any, carried: bytes = b"") -> Any:
    """The stream with `carried` behind it, or a tuple of that and the buffers."""
    if type(value) in _PLAIN:
        return pickle.dumps(value, 5) + carried
    buffers: list[pickle.PickleBuffer] = []
    stream = BytesIO()
    _Pickler(stream, 5, buffer_callback=_stay_or_leave(buffers, _MOST)).dump(value)
    stream.write(carried)
    if buffers:
        return (stream.getbuffer(), *(buffer.raw() for buffer in buffers))
    return stream.getbuffer()


def loads_item(core: Message, copies: bool) -> tuple[Any, str | None]:
    """The object, and the traceparent that came with it. `copies`: leaves nothing in the message's
    memory."""
    stream = memoryview(cast(Any, core.segment(0, True)))
    carried = None if stream[-1:] == _END else trace.found(stream[-trace.CARRIED_BYTES :])
    if core.segments == 1:
        return pickle.loads(stream), carried
    buffers = [memoryview(cast(Any, core.segment(i, True))) for i in range(1, core.segments)]
    return pickle.loads(stream, buffers=map(bytearray, buffers) if copies else buffers), carried
