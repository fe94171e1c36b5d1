"""Every way of sending, every dtype, every byte; two processes where it matters."""

import array
import ctypes
import pickle
import threading

import numpy
from support import Case, pattern

import gantry

DTYPES = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()


def echo(there: str, back: str) -> None:
    """Sends back what comes: arrays as arrays, with type and user."""
    with gantry.Consumer(there) as consumer, gantry.Producer(back) as producer:
        producer.wait_for_consumers()
        for message in consumer:
            producer.send(message.array, type=message.type, user=message.user)


class Exchange(Case):
    def same(self, received: numpy.ndarray, sent: numpy.ndarray) -> None:
        self.assertEqual(received.dtype, sent.dtype)
        self.assertEqual(received.shape, sent.shape)
        self.assertEqual(received.tobytes(), sent.tobytes())
        self.assertFalse(received.flags.writeable)

    def test_every_dtype_and_shape(self) -> None:
        producer, consumer = self.pair()
        for dtype in DTYPES:
            for shape in [(), (0,), (1,), (7,), (3, 5), (2, 3, 4), (0, 4), (1,) * 8, (40, 50, 3)]:
                count = int(numpy.prod(shape))
                array = pattern(count, dtype).reshape(shape)
                producer.send(array)
                self.same(consumer.receive(5).array, array)
                turned = numpy.array(array, order="F")
                producer.send(turned)
                self.same(consumer.receive(5).array, turned)

    def test_echo_by_another_process(self) -> None:
        self.start(echo, self.name, self.name + "-back")
        with gantry.Producer(self.name) as producer, gantry.Consumer(self.name + "-back") as back:
            producer.wait_for_consumers(timeout=10)
            for size in [0, 1, 63, 4096, 16384, 16385, 65536, 1 << 20, (16 << 20) + 3]:
                array = pattern(size, seed=size)
                producer.send(array, type=size & 0xFFFF, user=size << 32)
                message = back.receive(20)
                self.same(message.array, array)
                self.assertEqual((message.type, message.user), (size & 0xFFFF, size << 32))
                with producer.loan(max(size, 1)) as loan:
                    loan[:] = 0x5A
                self.assertEqual(back.receive(20).array.tobytes(), b"\x5a" * max(size, 1))
                del message

    def test_bytes_of_all_kinds(self) -> None:
        producer, consumer = self.pair()
        text = b"gantry"
        for value in [text, bytearray(text), memoryview(text), numpy.frombuffer(text, "u1")]:
            producer.send(value)
            message = consumer.receive(5)
            self.assertEqual(bytes(message), text)
            self.assertEqual(message.data, text)
            self.assertEqual(message.array.tobytes(), text)

    def test_parts_are_segments(self) -> None:
        producer, consumer = self.pair()
        array = pattern(1000, "f4").reshape(10, 100)
        producer.send_parts(b"head", array, b"")
        message = consumer.receive(5)
        self.assertEqual(len(message), 3)
        self.assertEqual(message.segment(0), b"head")
        self.same(message.arrays(1), array)
        self.assertEqual(message.segment(2), b"")
        with self.assertRaises(gantry.InvalidArgument):
            message.segment(3)

    def test_a_loan_is_published_or_dropped(self) -> None:
        producer, consumer = self.pair(slots=2)
        for turn in range(10):
            with producer.loan((100, 200), "f4") as loan:
                loan[:] = turn
            with self.assertRaises(ValueError):
                loan[:] = 99
            self.assertTrue((consumer.receive(5).array == turn).all())
            with self.assertRaises(KeyError), producer.loan(100):
                raise KeyError
        with self.assertRaises(gantry.TimedOut):
            consumer.receive(0)
        with producer.loan((0, 3), "i2") as loan:
            pass
        self.assertEqual(consumer.receive(5).array.shape, (0, 3))

    def test_arrays_born_here_are_moved(self) -> None:
        producer, consumer = self.pair()
        with producer.born_here():
            array = numpy.zeros((300, 400), "f8")
            small = numpy.zeros(10)
        later = numpy.zeros((300, 400))
        array += pattern(400, "f8")
        view = array[:10]
        producer.move(array)
        message = consumer.receive(5)
        self.same(message.array, array)
        self.assertFalse(array.flags.writeable)
        with self.assertRaises(ValueError):
            array[0] = 1
        for other in (small, later, view[1:]):
            with self.assertRaises(gantry.InvalidArgument) as caught:
                producer.move(other)
            self.assertRegex(caught.exception.hint, "born_here|the whole array")
        reshaped = array.reshape(-1)
        producer.move(reshaped)
        self.same(consumer.receive(5).array, reshaped)

    def test_what_is_more_than_its_elements_is_not_moved(self) -> None:
        producer, consumer = self.pair()
        with producer.born_here():
            masked = numpy.ma.array(pattern(20_000, "f8"), mask=pattern(20_000, "?"), copy=True)
            named = numpy.zeros(20_000).view(numpy.recarray)
            dates = numpy.zeros(20_000, "M8[s]")
        for value in (masked, named):
            with self.assertRaises(gantry.InvalidArgument) as caught:
                producer.move(value)
            self.assertIn("a subclass of numpy.ndarray, of which only", caught.exception.why)
            with self.assertRaises(gantry.InvalidArgument) as sent:
                producer.send(value)
            self.assertEqual(str(caught.exception), str(sent.exception))
            self.assertTrue(value.flags.writeable)
        with self.assertRaises(gantry.InvalidArgument):
            producer.move(dates)
        producer.move(numpy.asarray(masked))
        self.same(consumer.receive(5).array, masked.data)

    def test_born_arrays_grow_and_die(self) -> None:
        producer, consumer = self.pair()
        for turn in range(50):
            with producer.born_here():
                array = numpy.ones(50_000 + turn, "i4")
                array.resize(80_000, refcheck=False)
                array.resize(10, refcheck=False)
                array.resize(90_000, refcheck=False)
                kept = numpy.arange(30_000) + 1
                zeros = numpy.zeros(40_000)  # where something was before
                self.assertFalse(zeros.any())
                zeros += 1
                del zeros
            self.assertEqual(array[:10].tolist(), [1] * 10)
            self.assertEqual(array[10:].sum(), 0)
        producer.drop()
        self.assertEqual(kept.sum(), 30_000 * 30_001 // 2)  # the pool outlives its end

    def test_a_message_travels_on(self) -> None:
        producer, consumer = self.pair()
        with gantry.Producer(self.name + "-2") as second, gantry.Consumer(self.name + "-2") as last:
            array = pattern(100_000, "f4")
            producer.send(array, user=7)
            message = consumer.receive(5)
            kept = message.array
            with self.assertRaises(gantry.Busy):
                second.send(message)
            del kept
            second.wait_for_consumers(timeout=5)
            second.send(message)
            with self.assertRaises(gantry.InvalidArgument):
                message.array
            self.same(last.receive(5).array, array)
            del message
            second.drop()

    def test_objects_by_pickle(self) -> None:
        producer, consumer = self.pair(pickles=True)
        big = pattern(100_000, "f8")
        value = {"big": big, "small": numpy.arange(3), "text": "ü", "none": None, "t": big.T[::2]}
        producer.send(value)
        message = consumer.receive(5)
        self.assertEqual(len(message), 2)
        got = message.object()
        self.assertEqual(got["text"], "ü")
        numpy.testing.assert_array_equal(got["big"], big)
        numpy.testing.assert_array_equal(got["t"], big[::2])
        self.assertFalse(got["big"].flags.owndata)
        producer.send([numpy.zeros(5000) + i for i in range(100)])  # more than there are segments
        for i, array in enumerate(consumer.receive(5).object()):
            self.assertTrue((array == i).all())

    def test_what_no_tensor_has_is_pickled(self) -> None:
        producer, consumer = self.pair(pickles=True)
        for value in [(1, 2), "text", numpy.array([{"a": 1}]), numpy.arange(100_000)[::2],
                      numpy.zeros(3, "M8[s]"), numpy.arange(3, dtype=">i4")]:  # fmt: skip
            producer.send(value)
            got = consumer.receive(5).object()
            self.assertTrue(numpy.array_equal(got, value), value)
            self.assertEqual(type(got), type(value))
        producer.send(numpy.arange(5))  # and what one has is not
        self.assertEqual(consumer.receive(5).type, 0)

    def test_nothing_arrives_as_less_than_it_was(self) -> None:
        class Named(numpy.ndarray):
            pass

        masked = numpy.ma.array([1.0, 2.0, -9999.0], mask=[False, False, True])
        record = numpy.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")])
        less = [
            masked, numpy.arange(4).reshape(2, 2).view(numpy.matrix),
            numpy.arange(4.0).view(numpy.recarray),
            numpy.datetime64("2026-11-29"), numpy.timedelta64(5, "s"), record[0], record,
            numpy.array([b"ab"]), numpy.array(["ab"]), numpy.zeros(3, "m8[s]"),
        ]  # fmt: skip
        kilograms = numpy.dtype("f4", metadata={"unit": "kg"})
        producer, consumer = self.pair(pickles=True)
        for value in less:
            producer.send(value)
            got = consumer.receive(5).object()
            self.assertIs(type(got), type(value))
            self.assertEqual(got.dtype, value.dtype)
            self.assertEqual(repr(got), repr(value))
        producer.send(masked)
        self.assertEqual(consumer.receive(5).object().mean(), 1.5)
        producer.send(numpy.zeros(3, kilograms))
        self.assertEqual(consumer.receive(5).object().dtype.metadata, {"unit": "kg"})
        plain = gantry.Producer(self.name + "-plain")
        self.addCleanup(plain.drop)
        for value in [*less, numpy.arange(3).view(Named)]:
            with self.assertRaises(gantry.InvalidArgument, msg=repr(value)) as caught:
                plain.send(value, timeout=0)
            self.assertIn("pickles=True", str(caught.exception.hint))

    def test_buffers_come_back_as_what_they_were(self) -> None:
        producer, consumer = self.pair(pickles=True)
        grid = memoryview(numpy.arange(12, dtype="f4").reshape(3, 4))
        for value in [
            b"", b"some", bytes(100_000), bytearray(), bytearray(b"some"), memoryview(b"some"), grid,
            array.array("d", [1, 2]), array.array("h"), array.array("u", "text"),
            array.array("l", [-1, 2]), array.array("L", [1, 2]), array.array("l"),
            memoryview(b"text").cast("c"), memoryview(b"text").cast("B").cast("c", (2, 2)),
            memoryview(b"").cast("c"), memoryview(ctypes.c_char(b"x")),
            numpy.float32(1.5), numpy.bool_(True), numpy.uint8(7), (b"a", b"b"),
        ]:  # fmt: skip
            producer.send(value)
            message = consumer.receive(5)
            got = message.object()
            self.assertIs(type(got), type(value))
            self.assertEqual(got, value)
            if isinstance(value, array.array):
                self.assertEqual(got.typecode, value.typecode)
            if isinstance(value, bytes):
                self.assertEqual(bytes(message), value)  # and no pickle of it
        with self.assertRaises(gantry.InvalidArgument):
            producer.send(memoryview(b"some")[::2])
        producer.send(b"some", type=5)  # which says nothing of bytes
        message = consumer.receive(5)
        self.assertEqual((message.type, bytes(message)), (5, b"some"))

    def test_characters_of_ctypes_are_bytes(self) -> None:
        producer, consumer = self.pair()
        grid = ((ctypes.c_char * 4) * 3)(*[(ctypes.c_char * 4)(*b"abcd")] * 3)
        producer.send(grid)
        message = consumer.receive(5)
        self.assertEqual(bytes(message), bytes(grid))
        self.assertEqual((message.array.shape, message.array.dtype), ((3, 4), "u1"))
        producer.send(ctypes.c_char(b"x"))
        self.assertEqual(bytes(consumer.receive(5)), b"x")

    def test_what_cannot_be_pickled_is_refused_with_a_hint(self) -> None:
        producer, consumer = self.pair(pickles=True)
        for value in (ctypes.create_string_buffer(b"text"), lambda: 0, threading.Lock()):
            with self.assertRaises(gantry.InvalidArgument) as caught:
                producer.send(value)
            self.assertIn("it cannot be pickled", caught.exception.why)
            self.assertIn("bytes(value)", caught.exception.hint)

    def test_pickles_are_off(self) -> None:
        producer, consumer = self.pair()
        with self.assertRaises(gantry.InvalidArgument) as caught:
            producer.send({"a": 1})
        self.assertIn("pickles=True", caught.exception.hint)
        producer.send(pickle.dumps(print), type=gantry.pickles.TYPE)
        with self.assertRaises(PermissionError):
            consumer.receive(5).object()

    def test_receive_into(self) -> None:
        producer, consumer = self.pair()
        array = pattern(100_000)
        producer.send(array)
        buffer = numpy.zeros(200_000, "u1")
        self.assertEqual(consumer.receive_into(buffer, 5), 100_000)
        self.assertEqual(buffer[:100_000].tobytes(), array.tobytes())
        producer.send(array)
        with self.assertRaises(gantry.InvalidArgument):
            consumer.receive_into(bytearray(10), 5)
        with self.assertRaises(BufferError):
            consumer.receive_into(b"read-only", 5)
        self.assertEqual(bytes(consumer.receive(5)), array.tobytes())

    def test_inbox(self) -> None:
        with gantry.Inbox(self.name) as inbox:
            senders = [gantry.Producer.connect(self.name, timeout=5) for _ in range(3)]
            for number, sender in enumerate(senders):
                sender.send(bytes([number]))
            got = [inbox.receive(5) for _ in senders]
            self.assertEqual(sorted(bytes(m) for m in got), [b"\0", b"\1", b"\2"])
            self.assertEqual(len({m.sender for m in got}), 3)
            for sender in senders:
                sender.close(5)
