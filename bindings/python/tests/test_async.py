"""asyncio: receiving, sending, calls; many tasks, cancelled tasks."""

import asyncio
import threading

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


class Calls(Case):
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
            del held[3], array
            request.reply(pattern(100_000), timeout=5)
            self.assertIsNotNone(waiting.wait(5))
            del waiting, request
