"""What cannot be sent is refused with a hint, and the channel goes on."""

import inspect
import io
import os
import unittest
from typing import Any
from unittest import mock

import numpy
from support import Case

import gantry
from gantry import receiving, rpc, runtime


class Refusals(Case):
    def test_what_cannot_be_sent(self) -> None:
        producer, consumer = self.pair()
        bad = [
            "text", 3, 3.5, None, object(), [1, 2], {"a": 1}, print, io.StringIO(),
            numpy.array([object()]), numpy.arange(10)[::2], numpy.arange(10)[::-1],
            numpy.zeros((4, 4))[:, :2], numpy.zeros((2, 3, 4)).transpose(1, 0, 2),
            numpy.broadcast_to(numpy.zeros(3), (4, 3)), numpy.arange(3, dtype=">i4"),
            numpy.zeros(2, "M8[s]"), numpy.zeros(2, "S3"), numpy.zeros(2, "U3"),
            numpy.zeros(2, [("a", "i4"), ("b", "f8")]), numpy.zeros(2, "g"),
            numpy.zeros((1,) * 9),
        ]  # fmt: skip
        for value in bad:
            with self.subTest(type(value)), self.assertRaises(gantry.Error) as caught:
                producer.send(value)
            self.assertTrue(caught.exception.hint, value)
        with self.assertRaises(gantry.TooLarge):
            producer.send_parts(*[b"x"] * 65)
        producer.send(b"goes on")
        self.assertEqual(bytes(consumer.receive(5)), b"goes on")

    def test_bad_arguments(self) -> None:
        producer, consumer = self.pair()
        for timeout in (-1, float("nan")):
            with self.assertRaises(gantry.InvalidArgument):
                producer.send(b"", timeout=timeout)
        with self.assertRaises(TypeError):
            consumer.receive("soon")  # type: ignore[arg-type]
        for words in ({"type": -1}, {"user": -1}, {"type": 1 << 40}, {"user": 1 << 64}):
            with self.assertRaises((OverflowError, gantry.InvalidArgument)):
                producer.send(b"", **words)
        with self.assertRaises(TypeError):
            gantry.Producer(self.name + "x", wrong=1)
        with self.assertRaises(gantry.InvalidArgument):
            gantry.Consumer(self.name, when_slow="never")
        with self.assertRaises(ValueError):
            gantry.Producer("../bad")
        with self.assertRaises(FileExistsError):
            gantry.Producer(self.name)
        with self.assertRaises(ValueError):
            gantry.Producer("nul\0")

    def test_errors_say_what_why_and_hint(self) -> None:
        with self.assertRaises(TimeoutError) as caught:
            gantry.Consumer(self.name, timeout=0.01)
        error = caught.exception
        assert isinstance(error, gantry.TimedOut)
        self.assertTrue(error.what and error.why)
        self.assertIn(error.why, str(error))
        import pickle

        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), str(again)), (type(error), str(error)))

    def test_a_relative_directory_is_refused_in_one_way(self) -> None:
        words = "^GANTRY_DIR 'channels': a relative path, .*; set it to a path that begins with '/'"
        opened: list[Any] = [
            lambda: gantry.Producer("x"), lambda: gantry.Consumer("x", timeout=0),
            lambda: gantry.Producer("x", runtime=gantry.Runtime()), gantry.Queue,
            lambda: gantry.Group("x", 0, 2, timeout=0), lambda: gantry.Runtime().channels(),
        ]  # fmt: skip
        with (
            mock.patch.dict(os.environ, GANTRY_DIR="channels"),
            mock.patch.dict(runtime._known),  # the runtime goes with the test
        ):
            for number, way in enumerate(opened):
                with self.subTest(number), self.assertRaisesRegex(gantry.InvalidArgument, words):
                    way()
        self.assertFalse(os.path.exists("channels"))

    def test_errors_are_what_people_catch(self) -> None:
        for kind, known in ((gantry.TimedOut, TimeoutError), (gantry.PeerGone, BrokenPipeError),
                            (gantry.PermissionDenied, PermissionError), (gantry.Closed, EOFError),
                            (gantry.NotFound, FileNotFoundError), (gantry.OutOfMemory, MemoryError),
                            (gantry.InvalidArgument, ValueError), (gantry.TooLarge, OverflowError)):  # fmt: skip
            error = kind("channel 'x': it is so", "do that")
            assert isinstance(error, known) and isinstance(error, gantry.Error)
            told = (error.what, error.why, error.hint)
            self.assertEqual(told, ("channel 'x'", "it is so", "do that"))

    def test_ends_that_are_closed(self) -> None:
        producer, consumer = self.pair()
        producer.send(b"last")
        message = consumer.receive(5)
        consumer.close()
        consumer.close()
        producer.drop()
        producer.close()
        for use in (lambda: producer.send(b""), lambda: consumer.receive(0), producer.fileno,
                    lambda: producer.wait_for_consumers(timeout=0)):  # fmt: skip
            words = f"^channel '{self.name}': this end is closed; open another one$"
            with self.assertRaisesRegex(gantry.InvalidArgument, words):
                use()
        self.assertEqual(bytes(message), b"last")

    def test_an_array_with_gaps_is_named(self) -> None:
        producer, _ = self.pair()
        words = r"^array: it is not contiguous, .*; send numpy.ascontiguousarray\(array\)$"
        with self.assertRaisesRegex(gantry.InvalidArgument, words):
            producer.send(numpy.zeros((4, 4))[:, ::2])

    def test_the_stream_ends(self) -> None:
        producer, consumer = self.pair()
        producer.send(b"1")
        producer.send(b"2")
        import threading

        closer = threading.Thread(target=producer.close)
        closer.start()
        self.assertEqual([bytes(m) for m in consumer], [b"1", b"2"])
        closer.join()
        with self.assertRaises(EOFError):
            consumer.receive(1)

    def test_buffers_are_read_only(self) -> None:
        producer, consumer = self.pair()
        producer.send(numpy.arange(100_000))
        message = consumer.receive(5)
        with self.assertRaises(ValueError):
            message.array[0] = 1
        with self.assertRaises(ValueError):
            message.array.flags.writeable = True
        with self.assertRaises(TypeError):
            message.data[0] = 1
        with self.assertRaises(TypeError), open("/dev/zero", "rb") as zeros:
            zeros.readinto(message._core.segment(0, True))
        private = message.private()
        private[:] = 5
        self.assertEqual(message.array[3], 3)
        self.assertTrue((private == 5).all())


class Docstrings(unittest.TestCase):
    def test_of_every_option(self) -> None:
        """Each is named where its class is described, or where that says whose options it has."""
        of_ends = {
            gantry.Producer: gantry.Producer, rpc.Client: gantry.Producer,
            gantry.Consumer: gantry.Consumer,
        }  # fmt: skip
        for kind, takes_those_of in of_ends.items():
            text = inspect.getdoc(kind) or ""
            with self.assertRaises(TypeError) as caught:
                takes_those_of("option", timeout=0, wrong=1)
            options = str(caught.exception).partition("there are ")[2].split(", ")
            signature = inspect.signature(kind).parameters
            named = [name for name in signature if name not in ("name", "server", "runtime", "options")]
            for name in [*named, *options]:
                if name != "pool":  # which Python has no other way to make
                    self.assertIn(name, text, kind)
        for value in receiving.WHEN_SLOW:
            self.assertIn(f'"{value}"', gantry.Consumer.__doc__ or "")
        self.assertIn("first consumer", gantry.Producer.close.__doc__ or "")

    def test_of_every_public_name(self) -> None:
        """Of classes their own; of their functions and properties perhaps their base's."""
        missing = []
        for module in (gantry, gantry.errors, gantry.rpc, gantry.tables, gantry.trace):
            for name, found in vars(module).items():
                ours = getattr(found, "__module__", "").startswith("gantry")
                if name.startswith("_") or not ours:
                    continue
                if not (found.__doc__ if inspect.isclass(found) else inspect.getdoc(found)):
                    missing.append(f"{module.__name__}.{name}")
                members = vars(found) if inspect.isclass(found) else {}
                for member in members:
                    value = getattr(found, member)
                    is_slot = inspect.ismemberdescriptor(value) or not hasattr(value, "__get__")
                    if member.startswith("_") or (is_slot and not isinstance(value, property)):
                        continue
                    if not inspect.getdoc(value):
                        missing.append(f"{module.__name__}.{name}.{member}")
        self.assertEqual(missing, [])
