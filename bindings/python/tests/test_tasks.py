"""asyncio: tasks that are cancelled, ends that are closed, loops that come and go."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import numpy
from support import Case, pattern

import gantry
from gantry import rpc

BIG = 100_000


class Cancelled(Case):
    def test_the_array_goes_when_its_ticket_has_ended(self) -> None:
        producer, consumer = self.pair(slots=1)
        producer.send(bytes(BIG))

        async def cancel(array: numpy.ndarray[Any, Any]) -> None:
            task = asyncio.create_task(producer.send_async(array))
            await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        arrays = [pattern(BIG, seed=seed) for seed in range(3)]
        left = [weakref.ref(array) for array in arrays]
        for array in arrays:
            asyncio.run(cancel(array))
        del array, arrays
        gc.collect()
        self.assertEqual([one() is None for one in left], [False] * 3)  # the library reads them
        self.assertEqual(bytes(consumer.receive(5)), bytes(BIG))
        for seed in range(3):
            self.assertEqual(consumer.receive(5).array.tobytes(), pattern(BIG, seed=seed).tobytes())
        asyncio.run(producer.send_async(b"next", timeout=5))
        gc.collect()
        self.assertEqual([one() is None for one in left], [True] * 3)
        self.assertEqual(bytes(consumer.receive(5)), b"next")

    def test_what_was_late_is_kept_while_it_may_be_read(self) -> None:
        producer, consumer = self.pair(slots=1)
        producer.send(bytes(BIG))
        left: list[Any] = []

        async def main() -> None:
            first = asyncio.create_task(producer.send_async(bytes(BIG)))
            await asyncio.sleep(0)
            array = pattern(BIG)
            left.append(weakref.ref(array))
            with self.assertRaises(gantry.TimedOut):
                await producer.send_async(array, timeout=0.01)  # the first one's turn goes on
            del array
            gc.collect()
            self.assertIsNotNone(left[0]())
            for _ in range(2):
                await consumer.receive_async(5)
            await first
            await producer.send_async(b"next", timeout=5)

        asyncio.run(main())
        gc.collect()
        self.assertIsNone(left[0]())

    def test_waiting_for_a_ticket_sleeps(self) -> None:
        producer, consumer = self.pair(slots=1)
        producer.send(bytes(BIG))
        asks = 0

        async def main() -> None:
            nonlocal asks
            until = producer._readiness.until

            async def counted(ask: Callable[[], Any], timeout: float | None = None) -> Any:
                def one() -> Any:
                    nonlocal asks
                    asks += 1
                    return ask()

                return await until(one, timeout)

            producer._readiness.until = counted  # type: ignore[method-assign, assignment]
            with self.assertRaises(gantry.TimedOut):
                await producer.send_async(bytes(BIG), timeout=0.2)

        asyncio.run(main())
        self.assertLess(asks, 20)


class Closed(Case):
    def ends_by(self, close: Callable[[], object], wait: Callable[[], Awaitable[Any]]) -> None:
        async def main() -> None:
            task = asyncio.ensure_future(wait())
            await asyncio.sleep(0.02)
            self.assertFalse(task.done())
            close()
            with self.assertRaisesRegex(gantry.InvalidArgument, "closed"):
                await asyncio.wait_for(task, 10)

        asyncio.run(main())

    def test_close_ends_the_waits_of_tasks(self) -> None:
        def by_a_thread(close: Callable[[], object]) -> None:
            thread = threading.Thread(target=close)
            thread.start()
            thread.join()

        async def first_of(consumer: gantry.Consumer) -> None:
            async for _ in consumer:
                pass

        for turn, by in enumerate((lambda close: close(), by_a_thread)):
            with self.subTest(turn):
                name = f"{self.name}-{turn}"
                producer, server = gantry.Producer(name, slots=1), rpc.Server(name + "-s")
                consumer = gantry.Consumer(name, timeout=5)
                producer.wait_for_consumers(timeout=5)
                self.ends_by(lambda: by(consumer.close), consumer.receive_async)
                consumer = gantry.Consumer(name, timeout=5)
                self.ends_by(lambda: by(consumer.close), lambda: first_of(consumer))
                self.ends_by(lambda: by(server.close), server.receive_async)
                consumer = gantry.Consumer(name, timeout=5)
                producer.wait_for_consumers(timeout=5)
                producer.send(bytes(BIG), timeout=5)
                self.ends_by(lambda: by(producer.drop), lambda: producer.send_async(bytes(BIG)))
                consumer.close()
                with rpc.Server(name + "-s"):
                    client = rpc.Client(name + "-s", timeout=5)
                    self.ends_by(lambda: by(client.close), lambda: client.call_async(b"?"))
                    self.assertEqual(client._room._free, 8)


class Forked(Case):
    def test_a_child_closes_what_a_thread_of_its_parent_uses(self) -> None:
        producer, consumer = self.pair()
        held, done = threading.Event(), threading.Event()

        def use() -> None:
            with consumer._readiness.lock:
                held.set()
                done.wait(20)

        thread = threading.Thread(target=use)
        thread.start()
        held.wait(20)
        self.start(consumer.close).join(10)
        self.assertEqual(self.children[0].exitcode, 0)
        done.set()
        thread.join()
        producer.send(b"goes on", timeout=5)
        self.assertEqual(bytes(consumer.receive(5)), b"goes on")


class Loops(Case):
    def in_threads(self, work: Callable[[int], Awaitable[Any]], threads: int = 2) -> list[Any]:
        results: list[Any] = [None] * threads

        async def guarded(number: int) -> Any:
            return await asyncio.wait_for(work(number), 30)

        def run(number: int) -> None:
            try:
                results[number] = asyncio.run(guarded(number))
            except BaseException as error:
                results[number] = error

        all_of_them = [threading.Thread(target=run, args=(n,)) for n in range(threads)]
        for thread in all_of_them:
            thread.start()
        for thread in all_of_them:
            thread.join()
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results

    def test_loops_of_several_threads_receive_by_one_end(self) -> None:
        producer, consumer = self.pair(slots=4)
        count = 400

        def send() -> None:
            for number in range(3 * count):
                producer.send(numpy.full(5000, number), timeout=20)

        async def receive(_: int) -> list[int]:
            seen = []
            for _ in range(count):
                array = (await consumer.receive_async(20)).array
                self.assertTrue((array == array[0]).all())
                seen.append(int(array[0]))
                del array
            return seen

        thread = threading.Thread(target=send)
        thread.start()
        seen = self.in_threads(receive, 3)
        thread.join()
        self.assertEqual(sorted(sum(seen, [])), list(range(3 * count)))

    def test_loops_of_several_threads_send_by_one_end(self) -> None:
        producer, consumer = self.pair(slots=2)
        seen: set[int] = set()
        count = 200

        def receive() -> None:
            for _ in range(3 * count):
                array = consumer.receive(20).array
                self.assertTrue((array == array[0]).all())
                seen.add(int(array[0]))

        async def send(number: int) -> None:
            for turn in range(count):
                await producer.send_async(numpy.full(5000, number * count + turn), timeout=20)

        thread = threading.Thread(target=receive)
        thread.start()
        self.in_threads(send, 3)
        thread.join()
        self.assertEqual(seen, set(range(3 * count)))

    def test_loops_of_several_threads_call_by_one_client(self) -> None:
        server = rpc.Server(self.name)

        def serve() -> None:
            with self.assertRaises(gantry.InvalidArgument):
                server.serve(lambda request: request.array * 2)

        thread = threading.Thread(target=serve)
        thread.start()
        with rpc.Client(self.name, timeout=5, slots=2) as client:

            async def calls(number: int) -> bool:
                async def one(turn: int) -> bool:
                    reply = await client.call_async(numpy.full(1000, number + turn), timeout=20)
                    return bool((reply.array == 2 * (number + turn)).all())

                return all(await asyncio.gather(*map(one, range(40))))

            self.assertEqual(self.in_threads(calls, 3), [True] * 3)
            self.assertEqual(client._room._free, 2)
        server.close()
        thread.join(10)

    def test_a_loop_that_was_closed_spoils_nothing(self) -> None:
        producer, consumer = self.pair(slots=1)
        ends: list[tuple[Callable[[], Awaitable[Any]], Callable[[], object]]] = [
            (lambda: consumer.receive_async(10), lambda: producer.send(bytes(BIG), timeout=5)),
            (lambda: producer.send_async(bytes(BIG), timeout=10), lambda: consumer.receive(5)),
        ]
        for wait, end_of_it in ends:
            loop = asyncio.new_event_loop()
            waiting = asyncio.ensure_future(wait(), loop=loop)
            waiting._log_destroy_pending = False  # type: ignore[attr-defined]
            loop.run_until_complete(asyncio.sleep(0.01))
            loop.close()

            async def main() -> None:
                task = asyncio.ensure_future(wait())
                await asyncio.sleep(0.02)
                self.assertFalse(task.done())
                end_of_it()
                if end_of_it is ends[1][1]:
                    consumer.receive(5)  # what the closed loop has sent
                await asyncio.wait_for(task, 10)

            asyncio.run(main())
            del waiting
            gc.collect()
            if wait is ends[0][0]:
                producer.send(bytes(BIG), timeout=5)  # the slot is taken
