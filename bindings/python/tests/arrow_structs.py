"""The Arrow C data interface by ctypes: arrays that tests make, and a strict reader of others'.

It shares nothing with the package: what each format takes is written down here once more.
"""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Iterator
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int64, c_void_p
from typing import Any, NamedTuple

import numpy


class ArrowSchema(ctypes.Structure):
    pass


class ArrowArray(ctypes.Structure):
    pass


RELEASE = CFUNCTYPE(None, c_void_p)
ArrowSchema._fields_ = [
    ("format", c_char_p), ("name", c_char_p), ("metadata", c_void_p), ("flags", c_int64),
    ("n_children", c_int64), ("children", POINTER(POINTER(ArrowSchema))),
    ("dictionary", POINTER(ArrowSchema)), ("release", RELEASE), ("private_data", c_void_p),
]  # fmt: skip
ArrowArray._fields_ = [
    ("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64),
    ("n_children", c_int64), ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(ArrowArray))), ("dictionary", POINTER(ArrowArray)),
    ("release", RELEASE), ("private_data", c_void_p),
]  # fmt: skip

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [c_void_p, c_char_p]
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
BITS = {"b": 1, "c": 8, "C": 8, "s": 16, "S": 16, "i": 32, "I": 32, "l": 64, "L": 64, "e": 16,
        "f": 32, "g": 64, "tdD": 32, "tdm": 64, "tts": 32, "ttm": 32, "ttu": 64, "ttn": 64,
        "tDs": 64, "tDm": 64, "tDu": 64, "tDn": 64, "tiM": 32, "tiD": 64, "tin": 128,
        "tss:": 64, "tsm:UTC": 64, "tsu:Europe/Berlin": 64, "tsn:": 64, "w:5": 40, "w:0": 0,
        "d:9,2": 128, "d:9,2,256": 256, "d:9,-2,32": 32}  # fmt: skip
OFFSETS = {"u": "i4", "z": "i4", "U": "i8", "Z": "i8", "+l": "i4", "+m": "i4", "+L": "i8"}


class Column(NamedTuple):
    """What an array is, all of it. Of each buffer, the bytes that somebody may look at."""

    format: str
    length: int
    buffers: tuple[bytes | None, ...]
    null_count: int = 0
    offset: int = 0
    name: str | None = None
    metadata: bytes | None = None
    flags: int = 2
    children: tuple[Column, ...] = ()
    dictionary: Column | None = None


# ---- out


class Export:
    """One array: an object with __arrow_c_array__, or addresses. Counts what was released."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.released: list[str] = []
        self.kept: list[Any] = []
        self.nodes = 0
        self.schema = self._schema(column)
        self.array = self._array(column)

    def _release(self, what: str, kind: Any) -> Any:
        self.nodes += 1

        def release(address: int) -> None:
            it = kind.from_address(address)
            for index in range(it.n_children):
                child = it.children[index]
                if child.contents.release:
                    child.contents.release(ctypes.addressof(child.contents))
            if it.dictionary and it.dictionary.contents.release:
                it.dictionary.contents.release(ctypes.addressof(it.dictionary.contents))
            self.released.append(what)
            ctypes.memset(address + kind.release.offset, 0, 8)

        self.kept.append(RELEASE(release))
        return self.kept[-1]

    def _schema(self, column: Column) -> ArrowSchema:
        it = ArrowSchema(column.format.encode(), None if column.name is None else column.name.encode())
        if column.metadata is not None:
            self.kept.append(ctypes.create_string_buffer(column.metadata))
            it.metadata = ctypes.addressof(self.kept[-1])
        it.flags, it.n_children = column.flags, len(column.children)
        self._link(it, ArrowSchema, [self._schema(child) for child in column.children])
        if column.dictionary is not None:
            self._dictionary(it, self._schema(column.dictionary))
        it.release = self._release("schema", ArrowSchema)
        return it

    def _array(self, column: Column) -> ArrowArray:
        it = ArrowArray(column.length, column.null_count, column.offset, len(column.buffers))
        it.n_children = len(column.children)
        it.buffers = (c_void_p * (len(column.buffers) + 1))()
        for index, data in enumerate(column.buffers):
            if data is not None:
                self.kept.append(ctypes.create_string_buffer(data, len(data) + 1))
                it.buffers[index] = ctypes.addressof(self.kept[-1])
        self._link(it, ArrowArray, [self._array(child) for child in column.children])
        if column.dictionary is not None:
            self._dictionary(it, self._array(column.dictionary))
        it.release = self._release("array", ArrowArray)
        return it

    def _link(self, it: Any, kind: Any, children: list[Any]) -> None:
        self.kept.append(children)
        it.children = (POINTER(kind) * (len(children) + 1))(*map(ctypes.pointer, children))

    def _dictionary(self, it: Any, dictionary: Any) -> None:
        self.kept.append(dictionary)
        it.dictionary = ctypes.pointer(dictionary)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return (_capsule(ctypes.addressof(self.schema), b"arrow_schema", _SCHEMA_GONE),
                _capsule(ctypes.addressof(self.array), b"arrow_array", _ARRAY_GONE))  # fmt: skip

    @property
    def all_released(self) -> bool:
        """Each struct of it exactly once."""
        return sorted(self.released) == ["array"] * (self.nodes // 2) + ["schema"] * (self.nodes // 2)


def _gone(kind: Any, name: bytes) -> Any:
    def gone(capsule: int) -> None:
        it = kind.from_address(_pointer(capsule, name))
        if it.release:
            it.release(ctypes.addressof(it))

    return CFUNCTYPE(None, c_void_p)(gone)


_SCHEMA_GONE = _gone(ArrowSchema, b"arrow_schema")
_ARRAY_GONE = _gone(ArrowArray, b"arrow_array")


# ---- in


class Imported:
    """Moves the structs of an object out of its capsules, as a consumer does."""

    def __init__(self, exported: Any) -> None:
        capsules = exported.__arrow_c_array__()
        self.schema, self.array = ArrowSchema(), ArrowArray()
        for it, capsule, name in ((self.schema, capsules[0], b"arrow_schema"),
                                  (self.array, capsules[1], b"arrow_array")):  # fmt: skip
            address = _pointer(id(capsule), name)
            ctypes.memmove(ctypes.addressof(it), address, ctypes.sizeof(it))
            ctypes.memset(address + type(it).release.offset, 0, 8)

    def read(self) -> Column:
        return read(self.schema, self.array)

    def release(self) -> None:
        for it in (self.schema, self.array):
            release(it)


def release(it: Any) -> None:
    """Through the callback, which ctypes calls without the GIL."""
    it.release(ctypes.addressof(it))
    assert not it.release


def received(table: Any) -> Column:
    imported = Imported(table)
    column = imported.read()
    imported.release()
    return column


def metadata_at(address: int | None) -> bytes | None:
    if not address:
        return None
    used = 4
    for _ in range(2 * struct.unpack("i", ctypes.string_at(address, 4))[0]):
        used += 4 + struct.unpack("i", ctypes.string_at(address + used, 4))[0]
    return ctypes.string_at(address, used)


def sizes(format: str, total: int) -> list[int | None]:
    """The bytes of each buffer of so many rows; None: its offsets say."""
    bitmap = (total + 7) // 8
    if format == "n":
        return []
    if format == "+s" or format.startswith("+w:"):
        return [bitmap]
    if format in OFFSETS:
        offsets = (total + 1) * int(OFFSETS[format][1])
        return [bitmap, offsets] if format[0] == "+" else [bitmap, offsets, None]
    return [bitmap, (total * BITS[format] + 7) // 8]


def read(schema: ArrowSchema, array: ArrowArray) -> Column:
    """All of it, as a consumer that believes it does, having looked whether it may."""
    assert schema.release and array.release and schema.n_children == array.n_children
    assert bool(schema.dictionary) == bool(array.dictionary)
    format = schema.format.decode()
    total = array.length + array.offset
    wanted = sizes(format, total)
    assert array.n_buffers == len(wanted), (format, array.n_buffers)
    buffers: list[bytes | None] = []
    for index, count in enumerate(wanted):
        address = array.buffers[index]
        if count is None:
            assert buffers[1] is not None
            count = int(numpy.frombuffer(buffers[1], OFFSETS[format])[-1])
        assert address or index == 0, (format, index)
        buffers.append(ctypes.string_at(address, count) if address else None)
    column = Column(
        format, array.length, tuple(buffers), array.null_count, array.offset,
        None if schema.name is None else schema.name.decode(errors="replace"),
        metadata_at(schema.metadata), schema.flags,
        tuple(read(schema.children[i].contents, array.children[i].contents)
              for i in range(array.n_children)),
        read(schema.dictionary.contents, array.dictionary.contents) if array.dictionary else None,
    )  # fmt: skip
    check(column)
    return column


def difference(one: Column | None, other: Column | None, where: str = "table") -> str:
    """Where two are not the same; nothing if they are."""
    if one is None or other is None:
        return "" if one is other else where
    for field, left, right in zip(Column._fields, one, other):
        if field not in ("buffers", "children", "dictionary") and left != right:
            return f"{where}.{field}: {left!r}, {right!r}"
    if [None if it is None else len(it) for it in one.buffers] != [
        None if it is None else len(it) for it in other.buffers
    ]:
        return f"{where}: sizes of buffers"
    for index, (left, right) in enumerate(zip(one.buffers, other.buffers)):
        if left != right:
            return f"{where}, buffer {index}"
    if len(one.children) != len(other.children):
        return f"{where}: children"
    for index, (left, right) in enumerate(zip(one.children, other.children)):
        if found := difference(left, right, f"{where}.{index}"):
            return found
    return difference(one.dictionary, other.dictionary, where + ".dictionary")


def bits(data: bytes | None, begin: int, count: int) -> numpy.ndarray[Any, Any]:
    if data is None:
        return numpy.ones(count, "?")
    packed = numpy.frombuffer(data, "u1")
    return numpy.unpackbits(packed, bitorder="little")[begin : begin + count].view("?")


def check(column: Column) -> None:
    """What a consumer takes for granted."""
    total = column.length + column.offset
    assert column.length >= 0 and column.offset >= 0
    for child in column.children:
        if column.format == "+s":
            assert child.length >= total
        elif column.format.startswith("+w:"):
            assert child.length >= total * int(column.format[3:])
    if column.format == "n":
        return
    if column.buffers[0] is None:  # also if the rows are more than memory has bytes
        assert column.null_count <= 0
        valid = slice(0, column.length)
    else:
        valid = bits(column.buffers[0], column.offset, column.length)
        nulls = column.length - int(valid.sum())
        assert column.null_count in (-1, nulls)
    if column.format in OFFSETS:
        offsets = numpy.frombuffer(column.buffers[1] or b"", OFFSETS[column.format])
        assert offsets[0] >= 0 and (numpy.diff(offsets) >= 0).all()
        if column.children:
            assert offsets[-1] <= column.children[0].length
    if column.dictionary is not None:
        kind = {"c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8"}
        indices = numpy.frombuffer(column.buffers[1] or b"", kind[column.format])[column.offset :][valid]
        assert ((indices >= 0) & (indices < column.dictionary.length)).all()


# ---- arrays of every kind


class Zoo:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.made = 0

    def column(self, format: str, least: int, depth: int = 3) -> Column:
        """Of at least `least` rows."""
        offset = self.chance.choice([0, 0, 1, 3, 9]) if least > 0 else 0
        length = max(0, least + self.chance.choice([0, 0, 1, 5]) * (least > 0) - offset)
        length = max(length, least)
        total = length + offset
        self.made += 1
        bitmap = self.chance.choice([None, None if total == 0 else self.chance.randbytes((total + 7) // 8)])
        nulls = int(length - bits(bitmap, offset, length).sum())
        if self.chance.random() < 0.2:
            nulls = -1
        metadata = struct.pack("=ii3si2s", 1, 3, b"key", 2, b"it")
        column = Column(
            format, length, (bitmap,), nulls, offset, self.chance.choice([None, "", f"näme {self.made}"]),
            self.chance.choice([None, None, metadata]), self.chance.choice([0, 2, 7]),
        )  # fmt: skip
        if format == "n":
            return column._replace(buffers=(), null_count=length)
        return column._replace(**self._rest(format, column, total, depth))

    def _rest(self, format: str, column: Column, total: int, depth: int) -> dict[str, Any]:
        buffers, child = column.buffers, "+s" if format == "+m" else self.format(depth)
        if format == "+s":
            wanted = [self.format(depth) for _ in range(self.chance.randrange(4))]
            return {"children": tuple(self.column(it, total, depth - 1) for it in wanted)}
        if format.startswith("+w:"):
            return {"children": (self.column(child, total * int(format[3:]), depth - 1),)}
        if format not in OFFSETS:
            return {"buffers": (*buffers, self.chance.randbytes((total * BITS[format] + 7) // 8))}
        steps = [self.chance.choice([0, 0, 1, 4]) for _ in range(total + (total > 0))] or [0]
        offsets = numpy.cumsum(steps).astype(OFFSETS[format])
        buffers = (*buffers, offsets.tobytes())
        if format[0] != "+":
            return {"buffers": (*buffers, self.chance.randbytes(int(offsets[-1])))}
        if format == "+m":
            pairs = Column("+s", int(offsets[-1]), (None,), name="entries", children=(
                self.column("u", int(offsets[-1]), 0), self.column("l", int(offsets[-1]), 0)))  # fmt: skip
            return {"buffers": buffers, "children": (pairs,)}
        return {"buffers": buffers, "children": (self.column(child, int(offsets[-1]), depth - 1),)}

    def dictionary(self, index: str, least: int) -> Column:
        """Null rows have any index."""
        column = self.column(index, least)
        kind = numpy.dtype({"c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4",
                            "l": "i8", "L": "u8"}[index])  # fmt: skip
        values = self.column("u", 7)
        indices = numpy.frombuffer(column.buffers[1] or b"", kind).copy()
        window = indices[column.offset :]
        window[bits(column.buffers[0], column.offset, column.length)] %= 7
        return column._replace(buffers=(column.buffers[0], indices.tobytes()), dictionary=values)

    def format(self, depth: int) -> str:
        nested = ["+s", "+l", "+L", "+w:3", "+m"] if depth > 0 else []
        return self.chance.choice(["n", *BITS, *"uzUZ", *nested, *nested, *nested])

    def table(self, rows: int, columns: int, depth: int = 3) -> Column:
        made = [self.column(self.format(depth), rows + 2, depth) for _ in range(columns)]
        if columns > 1:
            made[0] = self.dictionary("i", rows + 2)
        return Column("+s", rows, (None,), offset=2, name="table", children=tuple(made))


def everything(rows: int) -> Iterator[Column]:
    zoo = Zoo(rows)
    for format in ("n", *BITS, *"uzUZ", "+s", "+l", "+L", "+w:3", "+w:0", "+m"):
        yield zoo.column(format, rows)
    for index in "cCsSiIlL":
        yield zoo.dictionary(index, rows)
