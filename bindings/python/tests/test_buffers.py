"""Memory of others than NumPy: without strides, as ctypes shows it, or with less said of it."""

from __future__ import annotations

import ctypes
from multiprocessing import RawArray
from typing import Any

import numpy
from support import Case, pattern, unittest

import gantry

SSIZES = ctypes.POINTER(ctypes.c_ssize_t)


class PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p), ("shape", SSIZES), ("strides", SSIZES),
        ("suboffsets", SSIZES), ("internal", ctypes.c_void_p),
    ]  # fmt: skip


GET_BUFFER = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.POINTER(PyBuffer), ctypes.c_int
)


class Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", GET_BUFFER)]


class Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint), ("slots", ctypes.POINTER(Slot)),
    ]  # fmt: skip


def exporter(memory: Any, **said: Any) -> Any:
    """An object of a type in C that shows the bytes of `memory`, and of them what is `said`."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))

    def get_buffer(self: Any, view: Any, flags: int) -> int:
        size = ctypes.c_ssize_t(len(memory))
        shown = ctypes.c_void_p(address)
        ctypes.pythonapi.PyBuffer_FillInfo(view, ctypes.py_object(self), shown, size, 0, flags)
        for name, value in said.items():
            setattr(view[0], name, value)
        return 0

    getter = GET_BUFFER(get_buffer)
    slots = (Slot * 2)(Slot(1, getter))  # Py_bf_getbuffer
    ctypes.pythonapi.PyType_FromSpec.restype = ctypes.py_object
    made: Any = ctypes.pythonapi.PyType_FromSpec(ctypes.byref(Spec(b"test.Shows", 0, 0, 0, slots)))
    made.kept = (getter, slots, memory)
    return made()


NO_SHAPE = {"shape": None, "strides": None}


class Buffers(Case):
    def test_ctypes_and_what_says_little_arrives_as_it_is(self) -> None:
        producer, consumer = self.pair()
        numbers = pattern(24, "i4")
        of_bytes = bytearray(numbers.tobytes())
        shared = RawArray("d", 6)
        shared[:] = list(range(6))
        table = (ctypes.c_int * 6 * 4).from_buffer_copy(of_bytes)
        for shown, expected in [
            ((ctypes.c_int * 24).from_buffer_copy(of_bytes), numbers),
            (table, numbers.reshape(4, 6)),
            ((ctypes.c_int * 3 * 2 * 4).from_buffer_copy(of_bytes), numbers.reshape(4, 2, 3)),
            ((ctypes.c_ubyte * 96).from_buffer_copy(of_bytes), numbers.view("u1")),
            ((ctypes.c_double * 0)(), numpy.zeros(0)),
            (ctypes.c_int64(-7), numpy.array(-7)),
            (memoryview(bytearray(b"abcd")).cast("i", []), numpy.frombuffer(b"abcd", "i4")[0]),
            (shared, numpy.arange(6.0)),
            (exporter(of_bytes, format=b"i", itemsize=4, **NO_SHAPE), numbers),
            (exporter(of_bytes, format=b"i", itemsize=4, ndim=2, **NO_SHAPE), numbers),
            (exporter(of_bytes, format=None, **NO_SHAPE), numbers.view("u1")),
        ]:
            with self.subTest(shown):
                producer.send(shown)
                array = consumer.receive(5).array
                self.assertEqual(array.tobytes(), expected.tobytes())
                self.assertEqual((array.shape, array.dtype), (expected.shape, expected.dtype))

    def test_characters_are_bytes(self) -> None:
        producer, consumer = self.pair()
        text = b"every byte \0 of it"
        shared = RawArray("c", len(text))
        shared.raw = text
        for value in [shared, ctypes.create_string_buffer(text, len(text)),
                      memoryview(text).cast("c")]:  # fmt: skip
            producer.send(value)
            self.assertEqual(bytes(consumer.receive(5)), text)

    def test_elements_of_no_size_are_refused(self) -> None:
        producer, _ = self.pair()
        for size in (0, -4, 32):
            with self.assertRaisesRegex(gantry.InvalidArgument, "no tensor has them"):
                producer.send(exporter(bytearray(64), format=b"i", itemsize=size, **NO_SHAPE))

    def test_collectives(self) -> None:
        shared = RawArray("f", 5)
        table = (ctypes.c_int64 * 3 * 2)()
        number = ctypes.c_double(2.5)
        memory = bytearray(numpy.arange(4, dtype="i4").tobytes())
        with gantry.Group("alone", 0, 1, timeout=60) as group:
            for shown in (shared, table, number, (ctypes.c_int * 0)()):
                before = bytes(shown)
                group.all_reduce(shown)
                self.assertEqual(bytes(shown), before)
            result = (ctypes.c_int * 4)()
            group.all_to_all(exporter(memory, format=b"i", itemsize=4, **NO_SHAPE), result)
            self.assertEqual(bytes(result), bytes(memory))


if __name__ == "__main__":
    unittest.main()
