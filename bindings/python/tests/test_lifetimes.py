"""Views outlive everything; the slot comes back when the last one dies, and not before."""

import asyncio
import gc
import itertools
import os
import random
import subprocess
import sys
import threading
import time

import numpy
from support import Case, open_descriptors, pattern

import gantry


def mappings() -> int:
    with open("/proc/self/maps") as maps:
        return sum(1 for _ in maps)


class Lifetimes(Case):
    def full(self, producer: gantry.Producer) -> bool:
        try:
            producer.send(bytes(100_000), timeout=0)  # a small one needs no slot
        except gantry.TimedOut:
            return True
        return False

    def test_the_slot_comes_back_with_the_last_view(self) -> None:
        makers = [
            lambda m: m, lambda m: m.array, lambda m: m.array[3:5].T, lambda m: m.data[2:4],
            lambda m: memoryview(m.array), lambda m: m.private(), lambda m: m._core.segment(0, True),
            lambda m: numpy.from_dlpack(m), lambda m: m.__dlpack__(),
            lambda m: m.__dlpack__(max_version=(1, 0)), lambda m: numpy.frombuffer(m.data, "u1"),
        ]  # fmt: skip
        for index, maker in enumerate(makers):
            with self.subTest(index):
                with gantry.Producer(f"{self.name}-{index}", slots=1) as producer:
                    consumer = gantry.Consumer(f"{self.name}-{index}")
                    producer.wait_for_consumers(timeout=5)
                    producer.send(pattern(100_000))
                    held = maker(consumer.receive(5))
                    self.assertTrue(self.full(producer))
                    del held
                    self.assertFalse(self.full(producer))
                    consumer.receive(5)
                    consumer.close()
                    producer.drop()

    def test_other_threads_run_while_an_end_goes(self) -> None:
        """Memory that the system takes back needs time, in which a ticking thread goes on."""
        size = 256 << 20
        for _ in range(10):
            producer, consumer = self.pair()
            producer.send(numpy.ones(size, "u1"), timeout=60)
            self.assertEqual(consumer.receive(60).data.nbytes, size)
            consumer.close()
            ticks = [time.perf_counter()]
            ends = threading.Event()

            def tick(ticks: list[float] = ticks, ends: threading.Event = ends) -> None:
                while not ends.wait(0.0005):
                    ticks.append(time.perf_counter())

            ticker = threading.Thread(target=tick)
            ticker.start()
            while len(ticks) < 3:
                os.sched_yield()
            begin = time.perf_counter()
            producer.drop()
            end = time.perf_counter()
            ends.set()
            ticker.join()
            between = [begin, *(tick for tick in ticks if begin < tick < end), end]
            if max(b - a for a, b in itertools.pairwise(between)) < (end - begin) / 2:
                return
        self.fail("no tick while it went")

    def test_a_view_of_a_loan_changes_nothing_published(self) -> None:
        producer, consumer = self.pair(slots=8)
        for make in (
            lambda a: a[10:20], lambda a: a.reshape(10, -1)[3], lambda a: a[::2][5:].view("i1"),
            lambda a: numpy.asarray(a.T), lambda a: a.view(numpy.ndarray),
        ):  # fmt: skip
            with producer.loan(50_000) as loan:
                loan[:] = 1
                other_name, view = loan, make(loan)
            view[:] = 9
            self.assertTrue((consumer.receive(5).array == 1).all())
            self.assertFalse(loan.flags.writeable)
            self.assertFalse(other_name.flags.writeable)

    def test_views_outlive_ends(self) -> None:
        producer, consumer = self.pair()
        sent = pattern(200_000, "f4")
        producer.send(sent)
        message = consumer.receive(5)
        array, private, data = message.array, message.private(), message.data
        with producer.loan(100_000) as loan:
            loan[:] = 9
        kept = loan[5:]
        del message, loan
        consumer.close()
        producer.drop()
        del consumer, producer
        self.doCleanups()
        gc.collect()
        self.assertEqual(array.tobytes(), sent.tobytes())
        private += 1
        self.assertEqual(bytes(data), sent.tobytes())
        self.assertEqual(kept.sum(), 9 * 99_995)

    def test_freed_in_other_threads(self) -> None:
        producer, consumer = self.pair(slots=4)
        for turn in range(200):
            producer.send(numpy.full(20_000, turn), timeout=5)
            array = consumer.receive(5).array
            box = [array]
            del array
            thread = threading.Thread(target=box.clear)
            thread.start()
            thread.join()

    def test_freed_in_another_thread_after_its_end(self) -> None:
        producer, consumer = self.pair()
        producer.send(pattern(100_000))
        box = [consumer.receive(5).private(), consumer, producer]
        del consumer, producer
        self.doCleanups()
        thread = threading.Thread(target=box.clear)
        thread.start()
        thread.join()

    def test_random_lifetimes(self) -> None:
        chance = random.Random(7)
        producer, consumer = self.pair(slots=16)
        alive: list[tuple[object, int]] = []
        for turn in range(10_000):
            value = turn % 251
            if len(alive) < 14:
                producer.send(numpy.full(chance.choice([1, 100, 5000, 70_000]), value, "u1"), timeout=5)
                message = consumer.receive(5)
                kind = chance.randrange(5)
                if kind == 0: view = message  # noqa: E701
                elif kind == 1: view = message.array[::2]  # noqa: E701
                elif kind == 2: view = message.private()  # noqa: E701
                elif kind == 3: view = message.data[:1]  # noqa: E701
                else: view = numpy.from_dlpack(message)  # noqa: E701
                alive.append((view, value))
                del view, message
            if chance.random() < 0.5 or len(alive) >= 14:
                view, expected = alive.pop(chance.randrange(len(alive)))
                data = view.array if isinstance(view, gantry.Message) else numpy.asarray(view)
                self.assertTrue((data == expected).all())
                del view, data

    def test_nothing_leaks(self) -> None:
        def once(turn: int) -> None:
            with gantry.Producer(f"{self.name}-{turn}") as producer:
                consumer = gantry.Consumer(producer.name)
                producer.wait_for_consumers(timeout=5)
                producer.send(pattern(100_000))
                with producer.loan(1000) as loan:
                    loan[:] = 1
                message = consumer.receive(5)
                message.private()[0] = 1
                consumer.receive(5)
                consumer.close()
                producer.drop()

        once(0)
        before = open_descriptors()
        maps = mappings()
        for turn in range(1, 30):
            once(turn)
        self.assertEqual(open_descriptors(), before)
        self.assertLess(mappings(), maps + 20)

    def test_the_interpreter_exits_with_everything_in_hand(self) -> None:
        program = f"""if True:
            import gantry, numpy, threading
            p = gantry.Producer("{self.name}"); c = gantry.Consumer("{self.name}")
            p.wait_for_consumers(timeout=5)
            p.send(numpy.arange(100000)); m = c.receive(5)
            views = [m.array, m.data, m.private(), m.__dlpack__(), numpy.from_dlpack(m)]
            loan = p.loan(10000); a = loan.__enter__()
            born = p.born_here(); born.__enter__(); b = numpy.zeros(100000)
            threading.Thread(target=c.receive, daemon=True).start()
            it = iter(c)
            cycle = [m]; cycle.append(cycle)
        """
        for _ in range(3):
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))

    def test_a_generator_dropped_half_way(self) -> None:
        producer, consumer = self.pair(slots=1)
        producer.send(bytes(100_000))
        for message in consumer:
            break
        self.assertTrue(self.full(producer))
        del message
        self.assertFalse(self.full(producer))
        for message in consumer:
            del message  # within the loop, too
            self.assertFalse(self.full(producer))
            break

    def test_an_async_loop_dropped_half_way(self) -> None:
        producer, consumer = self.pair(slots=1)
        producer.send(bytes(100_000))

        async def look_at_one() -> gantry.Message:
            async for message in consumer:
                return message
            raise AssertionError

        message = asyncio.run(look_at_one())
        self.assertTrue(self.full(producer))
        self.assertEqual(bytes(message), bytes(100_000))
        del message
        self.assertFalse(self.full(producer))
