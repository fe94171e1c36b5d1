"""DLPack both ways, in both forms; torch where it is installed."""

import ctypes
import importlib.util
import unittest

import numpy
from support import Case, pattern

import gantry

HAS_TORCH = importlib.util.find_spec("torch") is not None


class OnlyDlpack:
    """An object that shows its memory in no other way, as a torch tensor does."""

    def __init__(self, array: numpy.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack__(self) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class Dlpack(Case):
    def test_tensors_are_sent(self) -> None:
        producer, consumer = self.pair()
        for dtype in "i1 u2 i8 f2 f4 f8 c8".split():
            for array in (pattern(24, dtype).reshape(2, 3, 4), pattern(24, dtype).reshape(4, 6).T):
                producer.send(OnlyDlpack(array))
                got = consumer.receive(5).array
                self.assertEqual((got.dtype, got.shape), (array.dtype, array.shape))
                self.assertEqual(got.tobytes(), array.tobytes())
        big = pattern(1_000_000)
        producer.send(OnlyDlpack(big))
        self.assertEqual(bytes(consumer.receive(5)), big.tobytes())

    def test_tensors_that_cannot_be_sent(self) -> None:
        producer, _ = self.pair()
        ones = numpy.ones((4, 4))
        for bad, hint in ((OnlyDlpack(ones[:, ::2]), "contiguous"), (OnlyDlpack(ones, (2, 0)), "cpu")):
            with self.assertRaises(gantry.InvalidArgument) as caught:
                producer.send(bad)
            self.assertIn(hint, caught.exception.hint)

    def test_an_error_outlives_the_capsule_that_it_ends(self) -> None:
        """Whose destructor runs code of others, here Python's, while the error is on its way."""
        deleted = []

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def delete(capsule: int) -> None:
            deleted.append(capsule)

        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

        class Deleting(OnlyDlpack):
            def __dlpack__(self) -> object:
                self.lent = super().__dlpack__()
                return new(pointer(self.lent, b"dltensor"), b"dltensor", delete)

        producer, _ = self.pair()
        with self.assertRaises(gantry.InvalidArgument):  # without a Memory
            producer.send(Deleting(numpy.ones((4, 4))[:, ::2]))
        self.assertEqual(len(deleted), 1)
        producer.drop()
        with self.assertRaises(gantry.InvalidArgument):  # with one, in the parts
            producer.send(Deleting(pattern(100_000)))
        self.assertEqual(len(deleted), 2)

    def test_both_forms(self) -> None:
        producer, consumer = self.pair()
        producer.send(pattern(1000, "f4").reshape(10, 100))
        message = consumer.receive(5)
        name = ctypes.pythonapi.PyCapsule_GetName
        name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        old, new = message.__dlpack__(), message.__dlpack__(max_version=(1, 0))
        self.assertEqual((name(old), name(new)), (b"dltensor", b"dltensor_versioned"))
        fields = (ctypes.c_uint64 * 4).from_address(pointer(new, b"dltensor_versioned"))
        self.assertEqual((fields[0], fields[3]), (1, 1))  # version 1.0; read-only
        writable = message._core.view(0).dlpack(True)
        fields = (ctypes.c_uint64 * 4).from_address(pointer(writable, b"dltensor_versioned"))
        self.assertEqual(fields[3], 0)
        self.assertEqual(message.__dlpack_device__(), (1, 0))
        for wrong in ({"copy": True}, {"dl_device": (2, 0)}):
            with self.assertRaises(BufferError):
                message.__dlpack__(**wrong)
        again = numpy.from_dlpack(message)
        self.assertEqual(again.tobytes(), message.array.tobytes())
        del fields

    @unittest.skipUnless(HAS_TORCH, "torch is not installed")
    def test_torch(self) -> None:
        import torch

        producer, consumer = self.pair()
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8):
            tensor = torch.arange(12).reshape(3, 4).to(dtype)
            producer.send(tensor)
            message = consumer.receive(5)
            self.assertTrue(torch.equal(message.torch(), tensor))
            private = message.torch(private=True)
            private.zero_()
            self.assertTrue(torch.equal(message.torch(), tensor))
        for bad, hint in (
            (torch.ones(4, 4)[:, ::2], "contiguous()"),
            (torch.ones(3, requires_grad=True), "detach()"),
            (torch.eye(3).to_sparse(), "to_dense()"),
            (torch.ones(3, dtype=torch.complex64).conj(), "resolve_conj()"),
        ):
            with self.assertRaises(gantry.InvalidArgument) as caught:
                producer.send(bad)
            self.assertIn(hint, caught.exception.hint)
        producer.send(torch.ones(3).to(torch.bfloat16))
        with self.assertRaises(gantry.InvalidArgument):
            consumer.receive(5).array  # NumPy has no bfloat16
