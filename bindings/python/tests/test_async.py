"""asyncio: receiving, sending, calls; many tasks, cancelled tasks."""

import asyncio
import threading
import time
from collections.abc import Callable

import numpy
from support import Case, pattern

import gantry
from gantry import rpc


class Async(Case):
    def test_a_stream_both_ways(self) -> None:
        producer, consumer = self.pair(slots=2)
        arrays = [pattern(50_000 + n, seed=n) for n in range(40)]

        async def send() -> None:
            for array in arrays:
                await producer.send_async(array, timeout=10)
            await asyncio.to_thread(producer.close, 10)

        async def receive() -> list[bytes]:
            return [bytes(message) async for message in consumer]

        async def main() -> list[bytes]:
            return (await asyncio.gather(receive(), send()))[0]

        self.assertEqual(asyncio.run(main()), [array.tobytes() for array in arrays])

    def test_a_send_in_time_or_not(self) -> None:
        producer, consumer = self.pair(slots=1)

        async def main() -> None:
            await producer.send_async(bytes(100_000))
            held = consumer.receive(5)
            with self.assertRaises(gantry.TimedOut):
                await producer.send_async(bytes(100_000), timeout=0.05)
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(producer.send_async(bytes(100_000)), 0.05)
            del held
            self.assertEqual(len(bytes(await consumer.receive_async(5))), 100_000)

        asyncio.run(main())

    def test_many_tasks_send_by_one_end(self) -> None:
        producer, consumer = self.pair(slots=4)

        async def main() -> set[int]:
            sends = [
                asyncio.create_task(producer.send_async(numpy.full(20_000, n))) for n in range(50)
            ]
            seen = set()
            for _ in sends:
                seen.add(int((await consumer.receive_async(10)).array[0]))
            await asyncio.gather(*sends)
            return seen

        self.assertEqual(asyncio.run(main()), set(range(50)))

    def test_cancelled_receiving_loses_nothing(self) -> None:
        producer, consumer = self.pair()

        async def main() -> bytes:
            for _ in range(20):
                with self.assertRaises(TimeoutError):
                    await asyncio.wait_for(consumer.receive_async(), 0.001)
            with self.assertRaises(gantry.TimedOut):
                await consumer.receive_async(0.01)
            producer.send(b"kept")
            return bytes(await consumer.receive_async(5))

        self.assertEqual(asyncio.run(main()), b"kept")

    def test_calls_of_many_tasks(self) -> None:
        server = rpc.Server(self.name)
        self.addCleanup(server.close)
        ended: list[gantry.Error] = []

        def answer(request: rpc.Request) -> object:
            if request.type == 1:
                raise gantry.NotFound("that: is not here", "look elsewhere")
            return request.array * 2

        def serve() -> None:
            try:
                server.serve(answer)
            except gantry.Error as error:
                ended.append(error)

        thread = threading.Thread(target=serve)
        thread.start()

        async def main() -> None:
            with rpc.Client(self.name, timeout=5) as client:
                async def one(number: int) -> bool:
                    reply = await client.call_async(numpy.full(1000, number), timeout=10)
                    return bool((reply.array == 2 * number).all())

                self.assertTrue(all(await asyncio.gather(*map(one, range(60)))))
                with self.assertRaises(gantry.NotFound) as caught:
                    await client.call_async(b"", type=1, timeout=5)
                self.assertIn("look elsewhere", str(caught.exception))
                self.assertTrue((client.call(numpy.full(9, 4), timeout=5).array == 8).all())

        asyncio.run(main())
        server.close()
        thread.join(5)
        self.assertFalse(thread.is_alive())
        self.assertIsInstance(ended[0], gantry.InvalidArgument)


class Untold(gantry.Error):
    """Of a code that says that nothing failed."""

    code = 0


class Speechless(gantry.Error):
    @property
    def message(self) -> str:
        raise ValueError("nothing to say")

    @message.setter
    def message(self, value: str) -> None:
        pass


class Unreadable(Exception):
    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(f"{name} cannot be read")


class Calls(Case):
    def test_a_client_hears_why_whatever_its_server_raises(self) -> None:
        raised: list[tuple[Callable[[], BaseException], type[Exception], str]] = [
            (lambda: ValueError("a \0 in it"), gantry.Aborted, "ValueError: a \\0 in it"),
            (lambda: gantry.NotFound("a \0", "b \0"), gantry.NotFound, "a \\0; b \\0"),
            (lambda: Untold("what"), gantry.Aborted, "Untold: what"),
            (lambda: Speechless("x"), gantry.Aborted, "Speechless, whose text raises ValueError"),
            (lambda: asyncio.CancelledError("cut"), gantry.Aborted, "CancelledError: cut"),
            (lambda: gantry.TimedOut("the disk: slow"), gantry.TimedOut, "the disk: slow"),
            (lambda: gantry.Interrupted("by hand"), gantry.Interrupted, "by hand"),
            (lambda: gantry.Closed("over"), gantry.Closed, "over"),
            (lambda: StopIteration(1), gantry.Aborted, "StopIteration: 1"),
            (lambda: Unreadable("why"), gantry.Aborted, "Unreadable: why"),
            (lambda: SystemExit("leave"), gantry.Aborted, "SystemExit: leave"),
        ]
        server = rpc.Server(self.name)
        client = rpc.Client(self.name, timeout=5)

        def answer(request: rpc.Request) -> None:
            time.sleep(0.001)  # until its client sleeps
            raise raised[request.type][0]()

        def serve() -> None:
            with self.assertRaises(SystemExit):
                server.serve(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        for index, (_, kind, text) in enumerate(raised):
            with self.subTest(text), self.assertRaises(gantry.Error) as caught:
                client.call(b"", type=index, timeout=20)
            self.assertIs(type(caught.exception), kind)
            self.assertEqual(str(caught.exception), text)
        thread.join(10)
        self.assertFalse(thread.is_alive())
        client.close()
        server.close()

    def test_a_call_waits_for_a_place_within_its_time(self) -> None:
        server = rpc.Server(self.name)
        client = rpc.Client(self.name, timeout=5, slots=3)
        may_answer = threading.Event()
        got: list[bytes] = []

        def serve() -> None:
            requests = [server.receive(30) for _ in range(3)]
            may_answer.wait(30)
            for request in requests:
                request.reply(b"!", timeout=5)
            del request
            requests.clear()
            last = server.receive(30)
            got.append(bytes(last))
            last.reply(b"last", timeout=5)

        async def main() -> None:
            calls = [asyncio.create_task(client.call_async(b"?", timeout=30)) for _ in range(3)]
            await asyncio.sleep(0)  # they have begun
            began = time.monotonic()
            with self.assertRaises(gantry.TimedOut) as caught:
                await client.call_async(b"too many", timeout=0.1)
            self.assertGreaterEqual(time.monotonic() - began, 0.1)
            self.assertIn("3 calls of this client are unanswered", caught.exception.message)
            self.assertFalse(any(call.done() for call in calls))
            late = asyncio.create_task(client.call_async(b"late", timeout=30))
            may_answer.set()
            for call in calls:
                self.assertEqual(bytes(await call), b"!")
            self.assertEqual(bytes(await late), b"last")

        thread = threading.Thread(target=serve)
        thread.start()
        asyncio.run(main())
        thread.join(30)
        self.assertEqual(got, [b"late"])  # and no call that was given up
        server.close()
        client.close()

    def test_a_call_ends_at_its_deadline_and_by_a_dropped_request(self) -> None:
        server = rpc.Server(self.name)
        client = rpc.Client(self.name, timeout=5)
        with self.assertRaises(gantry.TimedOut):
            client.call(b"?", timeout=0.1)
        call = client._begin(b"?", 5, 0)
        request = server.receive(5)
        self.assertTrue(request.wants_reply)
        del request
        with self.assertRaises(gantry.Aborted):
            call.wait(5)
        call = client._begin(b"?", 5, 0)
        request = server.receive(5)
        del call  # cancels
        with self.assertRaises(gantry.TimedOut):
            server.receive(0.05)
        self.assertFalse(request.wants_reply)
        call = client._begin(b"!", None, 0)
        server.close()
        with self.assertRaises((gantry.PeerGone, gantry.Aborted)):
            call.wait(5)
        client.close()
        with self.assertRaises(gantry.Error):
            call.wait(5)

    def test_views_of_replies_hold_the_servers_eight_places(self) -> None:
        with rpc.Server(self.name) as server, rpc.Client(self.name, timeout=5) as client:

            def call(number: int) -> gantry.Message:
                call = client._begin(pattern(100_000, seed=number), 5, 0)
                request = server.receive(5)
                request.reply(request.array)
                reply = call.wait(5)
                assert reply is not None
                return gantry.Message(reply, False)

            held = [call(number).array for number in range(8)]
            waiting = client._begin(b"?", 5, 0)
            request = server.receive(5)
            with self.assertRaises(gantry.TimedOut):
                request.reply(pattern(100_000))
            for number, array in enumerate(held):
                self.assertEqual(array.tobytes(), pattern(100_000, seed=number).tobytes())
            dropped = client._begin(b"?", 5, 0)
            unanswered = server.receive(5)
            with self.assertRaises(gantry.TimedOut):
                unanswered.reply(pattern(100_000))
            del held[3], array
            request.reply(pattern(100_000), timeout=5)
            self.assertIsNotNone(waiting.wait(5))
            del waiting, request
            del unanswered  # there is room for a refusal, which says why
            with self.assertRaises(gantry.Aborted) as caught:
                dropped.wait(5)
            self.assertIn("holds all its replies; let go of some", str(caught.exception))
            del dropped
