"""Numbers, options and words that are wrong: refused by name, never cut off."""

import asyncio
import sys
import unittest.mock
from collections.abc import Callable
from queue import Empty, Full
from typing import Any

import numpy
from support import Case

import gantry
from gantry import errors, rpc


class Arguments(Case):
    def test_numbers_that_do_not_fit(self) -> None:
        producer, consumer = self.pair()
        name = self.name + "-x"
        options32 = ("slots", "consumers", "history", "copy_threads", "mode")
        for option in options32:
            for value in (-1, 2**32, 2**32 + 2, 2**64 + 2, -(2**64)):
                with self.assertRaisesRegex(gantry.InvalidArgument, f"^{option}: "):
                    gantry.Producer(name, **{option: value})
        for option in ("bytes_in_flight", "budget_bytes"):
            for value in (-1, 2**64, 2**64 + 1):
                with self.assertRaisesRegex(gantry.InvalidArgument, f"^{option}: "):
                    gantry.Producer(name, **{option: value})
        for option in ("depth", "senders"):
            with self.assertRaisesRegex(gantry.InvalidArgument, f"^{option}: "):
                gantry.Consumer(self.name, **{option: 2**32 + 2})
        with self.assertRaisesRegex(gantry.InvalidArgument, "^spin_ns: "):
            gantry.Producer(name, spin_ns=2**63)
        for option in ("slots", "consumers"):
            with self.assertRaisesRegex(gantry.InvalidArgument, f"^{option}: it is 0"):
                gantry.Producer(name, **{option: 0})
        uses: list[tuple[str, Callable[[], Any]]] = [
            ("count", lambda: producer.wait_for_consumers(2**32, timeout=0)),
            ("count", lambda: producer.wait_for_consumers(-1, timeout=0)),
            ("type", lambda: producer.send(b"", type=2**32)),
            ("user", lambda: producer.send(b"", user=2**64)),
            ("user", lambda: producer.send(b"", user=-1)),
            ("maxsize", lambda: gantry.Queue(2**64 + 1)),
        ]
        for word, use in uses:
            with self.subTest(word), self.assertRaisesRegex(gantry.InvalidArgument, f"^{word}: "):
                use()
        producer.send(b"goes on", timeout=5)
        message = consumer.receive(5)
        with self.assertRaisesRegex(gantry.InvalidArgument, "^segment: "):
            message.segment(-1)

    def test_a_wrong_option_is_named(self) -> None:
        """And not another one, nor a place among the arguments of some function within."""
        wrong: Any = "x"
        number: Any = 5
        uses: list[tuple[str, Callable[[], Any]]] = [
            ("stall", lambda: gantry.Group("g", 0, 2, stall=-1, timeout=0)),
            ("stall", lambda: gantry.Group("g", 0, 2, stall=wrong, timeout=0)),
            ("timeout", lambda: gantry.Group("g", 0, 2, timeout=wrong)),
            ("name: a str is needed, not int", lambda: gantry.image(number, timeout=0)),
            ("name: a str is needed, not int", lambda: gantry.Queue(name=number)),
            ("channel name 'a/b': ", lambda: gantry.Queue(name="a/b")),
            ("channel name '': it is empty", lambda: gantry.Queue(name="")),
            ("redeliver: True or False", lambda: gantry.Queue(redeliver=wrong)),
            ("redeliver: True or False", lambda: gantry.Queue.attach("q", redeliver=wrong)),
        ]
        for words, use in uses:
            with (
                self.subTest(words),
                self.assertRaisesRegex((gantry.InvalidArgument, TypeError), f"^{words}"),
            ):
                use()

    def test_tasks_refuse_timeouts_as_calls_do(self) -> None:
        wrong: Any = "x"
        with rpc.Server(self.name) as server, rpc.Client(self.name, timeout=5) as client:
            pairs: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
                (lambda t: client.call(b"?", timeout=t), lambda t: client.call_async(b"?", timeout=t)),
                (server.receive, server.receive_async),
            ]
            for timeout in (wrong, -1, float("nan")):
                for plain, task in pairs:
                    with self.assertRaises((gantry.InvalidArgument, TypeError)) as expected:
                        plain(timeout)
                    with self.assertRaises(type(expected.exception)) as caught:
                        asyncio.run(task(timeout))
                    self.assertEqual(str(caught.exception), str(expected.exception))
                    self.assertRegex(str(caught.exception), "^timeout: ")

    def test_replies_and_refusals(self) -> None:
        with rpc.Server(self.name) as server, rpc.Client(self.name, timeout=5) as client:
            call = client._begin(b"?", 10, 0)
            request = server.receive(5)
            with self.assertRaisesRegex(gantry.InvalidArgument, "^type: "):
                request.reply(b"", type=2**32 + 1)
            with self.assertRaisesRegex(gantry.InvalidArgument, "^code: "):
                request._core.refuse(2**32 + 1, "no", "")
            request.reply(b"!", type=7)
            reply = call.wait(5)
            assert reply is not None
            self.assertEqual(reply.type, 7)
            del reply, call, request

    def test_whatever_is_a_whole_number_is_one(self) -> None:
        five = numpy.int64(5)
        options = {"slots": five, "bytes_in_flight": numpy.uint64(1 << 20)}
        with gantry.Producer(self.name, **options) as producer:
            with gantry.Consumer(self.name, depth=numpy.int8(3), timeout=5) as consumer:
                producer.wait_for_consumers(numpy.int32(1), timeout=5)
                with producer.loan(five) as loan:
                    loan[:] = 7
                with producer.loan((five, numpy.int16(2)), "i4", type=numpy.int64(3)) as loan:
                    loan[:] = 9
                first, second = consumer.receive(5), consumer.receive(5)
                self.assertEqual(first.array.tolist(), [7] * 5)
                self.assertEqual(second.arrays(numpy.int64(0)).tolist(), [[9, 9]] * 5)
                self.assertEqual(second.type, 3)
                self.assertEqual(len(second.segment(numpy.uint8(0))), 40)
                del first, second
            producer.drop()
        with self.assertRaisesRegex(TypeError, "^slots: a whole number is needed, not float"):
            gantry.Producer(self.name, slots=2.0)  # type: ignore[arg-type]

    def test_names_and_options_that_are_none(self) -> None:
        for kind in (gantry.Producer, gantry.Consumer, gantry.Inbox, rpc.Client, rpc.Server):
            with self.assertRaisesRegex(TypeError, "^name: a str is needed, not int"):
                kind(5)  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "'slotz'; there are slots, consumers, mode"):
            gantry.Producer(self.name, slotz=3)
        with self.assertRaisesRegex(TypeError, "'dept'; there are depth, senders"):
            gantry.Consumer(self.name, dept=3)
        with self.assertRaisesRegex(gantry.InvalidArgument, "^mode: there is no 'x'; one of auto"):
            gantry.Producer(self.name, mode="x")
        producer, consumer = self.pair(mode="whole")
        producer.send(bytes(100_000), timeout=5)
        self.assertEqual(bytes(consumer.receive(5)), bytes(100_000))

    def test_errors_speak_python(self) -> None:
        with gantry.Producer(self.name) as producer:
            with self.assertRaises(gantry.InvalidArgument) as caught:
                gantry.Consumer(self.name, senders=3, timeout=5)
            self.assertNotIn("gantry_", str(caught.exception))
            producer.drop()
        with gantry.Inbox(self.name) as inbox:
            for use in (lambda: inbox.rejoin(0), lambda: inbox.receive_into(bytearray(3), 0)):
                with self.assertRaises(gantry.Error) as refused:
                    use()
                self.assertNotIn("gantry_", str(refused.exception))
        for theirs, ours in (
            ("raise ProducerOptions::consumers of it", "raise consumers= of it"),
            ("InboxOptions::producers, or ServerOptions::clients", "senders=, or senders="),
            ("set ConsumerOptions::when_slow to another", "set when_slow= to another"),
            ("leave ServerOptions::channel.when_slow at block", "leave when_slow= at block"),
            ("or raise PoolOptions::budget_bytes", "or raise budget_bytes="),
            ("from Producer::pool(), or send", "from loan() or born_here(), or send"),
            ("raise ReceiveLimits::slabs here", "raise slabs (in C++ only) here"),
            ("take: Consumer::receive_early()", "take: receive_early() (in C++ only)"),
            ("gantry_receive(), then copy", "receive(), then copy"),
            ("gantry_send_async: a stage", "send_async: a stage"),
            ("gantry_client_connect()", "rpc.Client()"),
        ):
            self.assertEqual(errors._make(1, theirs, theirs).hint, ours)

    def test_without_numpy(self) -> None:
        producer, consumer = self.pair()
        producer.send(b"bytes", timeout=5)
        message = consumer.receive(5)
        hidden: Any = {"numpy": None}
        again = unittest.mock.patch("gantry.message._asarray", gantry.message._import_asarray)
        with unittest.mock.patch.dict(sys.modules, hidden), again:
            for use in (lambda: message.array, lambda: producer.loan(5).__enter__()):
                with self.assertRaises(gantry.Unsupported) as caught:
                    use()
                self.assertIn("python3-numpy", caught.exception.hint)
        self.assertEqual(message.data, b"bytes")

    def test_a_timeout_is_a_number(self) -> None:
        producer, consumer = self.pair()
        for call in (lambda: consumer.receive("1"), lambda: producer.send(b"", timeout="1")):
            with self.assertRaisesRegex(TypeError, "timeout: seconds or None .* not '1'"):
                call()

    def test_a_queues_numbers_are_numbers(self) -> None:
        for maxsize in ("8", 2.5, None):
            words = f"^maxsize: a whole number is needed, 0 for no limit, not {maxsize!r}$"
            with self.assertRaisesRegex(TypeError, words):
                gantry.Queue(maxsize)  # type: ignore[arg-type]
        queue: Any = gantry.Queue(numpy.int8(1))
        queue.put("first", timeout=numpy.float32(5))
        for use in (lambda: queue.get(timeout="1"), lambda: queue.put("more", timeout="1")):
            with self.assertRaisesRegex(TypeError, "^timeout: seconds or None .* not '1'$"):
                use()
        self.assertRaises(Full, queue.put, "more", timeout=-1)
        self.assertEqual(queue.get(timeout=5), "first")
        self.assertRaises(Empty, queue.get, timeout=-1)
        queue.close()
        queue.join_thread()

    def test_a_loans_dtype_is_one(self) -> None:
        producer, _ = self.pair()
        for dtype in ("nonsense", 7):
            words = f"^dtype: one of NumPy's is needed, as 'float32', not {dtype!r}$"
            with self.assertRaisesRegex(TypeError, words), producer.loan(2, dtype):
                pass

    def test_a_client_without_a_server_is_told_to_start_one(self) -> None:
        words = "no server appeared in time; start the server, or check the name and GANTRY_DIR"
        with self.assertRaisesRegex(gantry.TimedOut, words):
            rpc.Client(self.name, timeout=0)

    def test_a_part_that_begins_elsewhere_is_not_moved(self) -> None:
        producer, consumer = self.pair()
        with producer.born_here():
            array = numpy.arange(20_000.0).reshape(2, 10_000)
        for part in (array[1], array[1][5000:]):
            with self.assertRaisesRegex(gantry.InvalidArgument, "move: a part of an array"):
                producer.move(part)
        with self.assertRaisesRegex(gantry.InvalidArgument, "does not lie in this end's pool"):
            producer.move(numpy.arange(20_000.0)[7:])
        producer.move(array[0], timeout=5)
        self.assertEqual(consumer.receive(5).array.tobytes(), numpy.arange(10_000.0).tobytes())

    def test_a_move_that_fails_says_why(self) -> None:
        producer, consumer = self.pair(slots=1)
        with producer.born_here():
            array = numpy.zeros((200, 100))
        strided = numpy.lib.stride_tricks.as_strided
        for bad in (strided(array, (100, 100), (8, 8)), strided(array, (200, 50), (800, 16))):
            with self.assertRaisesRegex(gantry.InvalidArgument, "gaps|overlap"):
                producer.move(bad)
        self.assertTrue(array.flags.writeable)
        with self.assertRaises(gantry.Error) as caught:
            producer.move(strided(array, (1 << 40,), (8,)))
        self.assertTrue(caught.exception.why)
        array = numpy.zeros(0)
        with producer.born_here():
            array = numpy.zeros((200, 100))
        view = strided(array, (200, 100), (800, 8))
        producer.send(bytes(100_000), timeout=5)
        with self.assertRaises(gantry.TimedOut):
            producer.move(view, timeout=0.01)
        self.assertTrue(array.flags.writeable)
        consumer.receive(5)
        producer.move(view, timeout=5)
        self.assertFalse(array.flags.writeable)
        self.assertEqual(consumer.receive(5).array.shape, (200, 100))
