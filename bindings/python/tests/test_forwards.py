"""A message that travels on is nobody's to look at, and is lost by no wait that ends early."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy
from support import Case, pattern

import gantry
from gantry import rpc

SIZE = 100_000


class Peeks:
    """A tensor that calls `look` while it is made a part: behind the parts before it."""

    def __init__(self, look: Callable[[], object]) -> None:
        self.array = numpy.zeros(8)
        self.look = look

    def __dlpack_device__(self) -> Any:
        self.look()
        return self.array.__dlpack_device__()

    def __dlpack__(self, **_: Any) -> Any:
        return self.array.__dlpack__()


class Forwards(Case):
    def setUp(self) -> None:
        super().setUp()
        self.producer, self.consumer = self.pair(slots=1)
        self.second = gantry.Producer(self.name + "-2")
        self.last = gantry.Consumer(self.name + "-2", timeout=5)
        self.second.wait_for_consumers(timeout=5)
        self.addCleanup(self.second.drop)
        self.addCleanup(self.last.close)

    def received(self) -> gantry.Message:
        self.producer.send(pattern(SIZE, seed=1), timeout=5)
        return self.consumer.receive(5)

    def test_nobody_looks_at_what_is_being_sent_on(self) -> None:
        looks: list[Callable[[gantry.Message], Any]] = [
            lambda m: m.array, lambda m: m.data, lambda m: m.private(),
            lambda m: numpy.from_dlpack(m), lambda m: self.second._core.send(m._core, 5, 0, 0),
        ]  # fmt: skip
        for look in looks:
            message = self.received()
            seen: list[Any] = []

            def peek() -> None:
                try:
                    seen.append(look(message))
                except gantry.Error as error:
                    seen.append(error)

            self.second.send_parts(message, Peeks(peek), timeout=5)
            self.assertIn(seen[0].__class__, (gantry.Busy, numpy.ndarray, memoryview))
            self.assertEqual(self.last.receive(5).segment(0), pattern(SIZE, seed=1).tobytes())
            self.producer.send(pattern(SIZE, seed=2), timeout=5)  # where it was
            if not isinstance(seen[0], gantry.Error):
                self.assertEqual(seen[0].tobytes(), pattern(SIZE, seed=1).tobytes())
            self.assertIsInstance(seen[0], gantry.Busy)
            self.assertTrue(seen[0].hint)
            self.consumer.receive(5)
            with self.assertRaises(gantry.InvalidArgument):
                message.array

    def test_a_message_that_was_not_sent_on_can_be_looked_at(self) -> None:
        message = self.received()
        with self.assertRaises(gantry.InvalidArgument):
            self.second.send_parts(message, object())
        with self.assertRaises(gantry.Busy):
            self.second.send_parts(message, message)
        self.assertEqual(message.array.tobytes(), pattern(SIZE, seed=1).tobytes())
        self.second.send(message, timeout=5)
        self.assertEqual(self.last.receive(5).array.tobytes(), pattern(SIZE, seed=1).tobytes())

    def test_a_thread_cannot_look_at_what_waits_for_its_end(self) -> None:
        """Another thread has the end; the message is looked at meanwhile, and sent in the end."""
        message = self.received()
        with gantry.Producer(self.name + "-3", slots=1) as third:
            last = gantry.Consumer(third.name, timeout=5)
            third.wait_for_consumers(timeout=5)
            third.send(bytes(SIZE), timeout=5)
            others = threading.Thread(target=third.send, args=(bytes(SIZE),))
            others.start()
            began = threading.Event()
            parts = (message._core, Peeks(began.set))
            sends = threading.Thread(target=third._core.send, args=(parts, None, 0, 0))
            sends.start()
            self.assertTrue(began.wait(10))
            with self.assertRaises(gantry.Busy):
                message.array
            for _ in range(2):
                self.assertEqual(bytes(last.receive(10)), bytes(SIZE))
            self.assertEqual(last.receive(10).segment(0), pattern(SIZE, seed=1).tobytes())
            others.join()
            sends.join()
            last.close()
            third.drop()

    def test_async_sends_take_it_too(self) -> None:
        message = self.received()

        async def main() -> None:
            sending = asyncio.create_task(self.second.send_async(message, timeout=5))
            await asyncio.sleep(0)
            with self.assertRaises(gantry.Error):
                message.array
            await sending
            with self.assertRaises(gantry.InvalidArgument):
                message.array

        asyncio.run(main())
        self.assertEqual(self.last.receive(5).array.tobytes(), pattern(SIZE, seed=1).tobytes())


class Replies(Case):
    def test_a_message_is_a_reply_as_soon_as_there_is_room(self) -> None:
        for interrupted in (False, True):
            with self.subTest(interrupted=interrupted):
                self.reply_without_room(interrupted)

    def reply_without_room(self, interrupted: bool) -> None:
        producer = gantry.Producer(f"{self.name}-{interrupted}")
        consumer = gantry.Consumer(producer.name, timeout=5)
        producer.wait_for_consumers(timeout=5)
        producer.send(pattern(SIZE))
        with rpc.Server(producer.name + "-s") as server, \
             rpc.Client(producer.name + "-s", timeout=5) as client:  # fmt: skip
            held = []
            for _ in range(8):  # all places that a client has
                call = client._begin(b"?", 5, 0)
                server.receive(5).reply(pattern(SIZE), timeout=5)
                held.append(call.wait(5))
            waiting = client._begin(b"?", 20, 0)
            request = server.receive(5)
            message = consumer.receive(5)
            if interrupted:
                timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
                with self.assertRaises(KeyboardInterrupt):
                    request.reply(message, timeout=20)
                timer.join()
                held.pop()
            else:
                timer = threading.Timer(0.2, held.pop)  # behind several looks for signals
                timer.start()
                request.reply(message, timeout=10)
                timer.join()
            reply = waiting.wait(10)
            assert reply is not None
            self.assertEqual(gantry.Message(reply, False).array.tobytes(), pattern(SIZE).tobytes())
            del call, reply, waiting, request, message
            held.clear()
        producer.drop()
        consumer.close()
