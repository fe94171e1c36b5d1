"""Tables by the Arrow C data interface: https://arrow.apache.org/docs/format/CDataInterface.html

What has __arrow_c_array__ (a batch of pyarrow's, polars', nanoarrow's) is sent as it is; what only
gives addresses of an ArrowSchema and an ArrowArray is sent as from_address() of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from . import _core
from .errors import InvalidArgument, OutOfMemory

if TYPE_CHECKING:
    import numpy

_DTYPES = {
    "c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8",
    "e": "f2", "f": "f4", "g": "f8", "tdD": "i4", "tdm": "M8[ms]", "tts": "i4", "ttm": "i4",
    "ttu": "i8", "ttn": "i8", "tDs": "m8[s]", "tDm": "m8[ms]", "tDu": "m8[us]", "tDn": "m8[ns]",
}  # fmt: skip
_INSTANTS = {"s": "M8[s]", "m": "M8[ms]", "u": "M8[us]", "n": "M8[ns]"}  # ts?:ZONE


class _Node(NamedTuple):
    format: str
    name: str
    length: int
    null_count: int  # -1: not known
    offset: int
    children: int
    end: int


class Table:
    """A struct's children are its columns; another array is the one column of itself.

    What it hands out is read-only, and keeps it (and the message that it lies in) alive.
    """

    __slots__ = ("_columns", "_core", "_root")

    def __init__(self, core: _core.Table) -> None:
        self._core = core
        self._root = _Node(*core.node(0))
        self._columns = [0] if self._root.format != "+s" else []
        index = 1
        while len(self._columns) < self._root.children and self._root.format == "+s":
            self._columns.append(index)
            index = _Node(*core.node(index)).end

    def __len__(self) -> int:
        """The number of rows."""
        return self._root.length

    @property
    def names(self) -> list[str]:
        """Of the columns, in their order."""
        return [self._node(column).name for column in range(len(self._columns))]

    @property
    def formats(self) -> list[str]:
        """As the interface has them: "l" for int64, "u" for text, and so on."""
        return [self._node(column).format for column in range(len(self._columns))]

    @property
    def segments(self) -> int:
        """How many segments of its message it takes; the next table begins behind them."""
        return self._core.segments

    def column(self, which: str | int) -> numpy.ndarray[Any, Any]:
        """The values of a column of numbers or times, where they lie; rows without one have any.
        Of bools, a copy. Of a dictionary, its indices."""
        node = self._node(which)
        if node.format == "b":
            return self._bits(which, 1)
        dtype = _DTYPES.get(node.format)
        if dtype is None and node.format[:2] == "ts":
            dtype = _INSTANTS[node.format[2]]
        if dtype is None:
            raise InvalidArgument(
                f"column {which!r}: NumPy has no arrays of the format '{node.format}'",
                "give the table to what knows Arrow: pyarrow.record_batch(table)",
            )
        import numpy

        memory = self._core.buffer(self._columns[self._index(which)], 1)
        values = numpy.frombuffer(b"" if memory is None else cast(Any, memory), "u1")
        begin, end = self._rows(node)
        step = numpy.dtype(dtype).itemsize
        return values[begin * step : end * step].view(dtype)

    def valid(self, which: str | int) -> numpy.ndarray[Any, Any]:
        """Of each row, whether the column has a value there. A copy."""
        return self._bits(which, 0)

    def __arrow_c_schema__(self) -> object:
        return self._core.schema()

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._core.schema(), self._core.array()

    def __repr__(self) -> str:
        return f"<gantry.tables.Table: {len(self._columns)} columns, {len(self)} rows>"

    def _index(self, which: str | int) -> int:
        if isinstance(which, int):
            if not -len(self._columns) <= which < len(self._columns):
                raise IndexError(f"column {which}: there are {len(self._columns)}")
            return which % len(self._columns)
        if self.names.count(which) != 1:
            raise InvalidArgument(f"column {which!r}: there is none, or more than one",
                                  "one of " + ", ".join(self.names) + ", or its number")  # fmt: skip
        return self.names.index(which)

    def _node(self, which: str | int) -> _Node:
        return _Node(*self._core.node(self._columns[self._index(which)]))

    def _rows(self, node: _Node) -> tuple[int, int]:
        begin = node.offset + (self._root.offset if self._root.format == "+s" else 0)
        return begin, begin + self._root.length

    def _bits(self, which: str | int, buffer: int) -> numpy.ndarray[Any, Any]:
        import numpy

        node = self._node(which)
        begin, end = self._rows(node)
        if node.format == "n":
            return _filled(numpy.zeros, which, end - begin)
        memory = self._core.buffer(self._columns[self._index(which)], buffer)
        if memory is None:
            return _filled(numpy.ones, which, end - begin)
        packed = numpy.frombuffer(cast(Any, memory), "u1")
        bits = numpy.unpackbits(packed, count=end, bitorder="little")[begin:]
        return bits.view("?")


def _filled(
    make: Callable[[int, str], numpy.ndarray[Any, Any]], which: str | int, rows: int
) -> numpy.ndarray[Any, Any]:
    """Rows that take no memory in a message may be more than there is memory for here."""
    try:
        return make(rows, "?")
    except (MemoryError, ValueError):
        raise OutOfMemory(
            f"column {which!r}: there is no memory for {rows} answers, one for each row",
            "all rows are the same: none has a value if the format is 'n', else each has one",
        ) from None


def from_address(schema: int, array: int) -> Table:
    """Of the structs at these two addresses, which it takes over, also if it fails: they count as
    released, and their release callbacks are called with the last use of the table."""
    return Table(_core.table_from_address(schema, array))
