"""What is copied, by the library's own counters; what runs meanwhile."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any

import numpy
from support import Case, pattern

import gantry


def channel(name: str) -> dict[str, Any]:
    return next(it for it in gantry.runtime.shared().channels() if it["name"] == name)


def copied(metrics: dict[str, Any]) -> int:
    return sum(int(engine["bytes"]) for engine in metrics["copies"].values())


class Counters(Case):
    def readers(self, count: int) -> tuple[gantry.Producer, list[gantry.Consumer]]:
        producer = gantry.Producer(self.name, consumers=count)
        self.addCleanup(producer.drop)
        consumers = [gantry.Consumer(self.name, timeout=5) for _ in range(count)]
        for consumer in consumers:
            self.addCleanup(consumer.close)
        producer.wait_for_consumers(count, timeout=5)
        return producer, consumers

    def test_four_readers_share_one_copy_or_none(self) -> None:
        producer, consumers = self.readers(4)
        sent = pattern(1_000_000, "f4")
        producer.send(sent)
        messages = [consumer.receive(5) for consumer in consumers]
        for message in messages:
            self.assertEqual(message.array.tobytes(), sent.tobytes())
        told = channel(self.name)
        self.assertEqual(copied(told["metrics"]), sent.nbytes)
        for reader in told["consumers"]:
            self.assertEqual((copied(reader["metrics"]), reader["metrics"]["bytes"]), (0, sent.nbytes))
        with producer.born_here():
            born = sent + 1
        producer.move(born)
        with producer.loan(sent.shape, "f4") as loan:
            loan[:] = born
        for _ in range(2):
            for consumer in consumers:
                self.assertEqual(consumer.receive(5).array.tobytes(), born.tobytes())
        told = channel(self.name)
        self.assertEqual(told["metrics"]["bytes"], 3 * sent.nbytes)
        self.assertEqual(copied(told["metrics"]), sent.nbytes)  # as before
        self.assertEqual([copied(reader["metrics"]) for reader in told["consumers"]], [0] * 4)

    def test_memory_of_dropped_loans_is_used_again(self) -> None:
        producer, _ = self.readers(1)
        with producer.loan(1 << 20):
            used = channel(self.name)["memory_used_bytes"]
            self.assertGreaterEqual(used, 1 << 20)
        for _ in range(100):
            with contextlib.suppress(KeyError), producer.loan(1 << 20):
                raise KeyError
        self.assertLessEqual(channel(self.name)["memory_used_bytes"], used)

    def test_other_threads_run_during_a_copy(self) -> None:
        producer, consumers = self.readers(1)
        done = threading.Event()
        turns = [0]

        def count() -> None:
            while not done.is_set():
                turns[0] += 1
                time.sleep(0)

        interval = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, interval)
        big = pattern(64 << 20)
        thread = threading.Thread(target=count)
        thread.start()
        sys.setswitchinterval(1000)  # from here on who has the GIL keeps it, unless it lets it go
        try:
            ran = []
            for _ in range(8):
                before = turns[0]
                producer.send(big, timeout=30)
                ran.append(turns[0] - before)
                consumers[0].receive(5)
        finally:
            done.set()
            sys.setswitchinterval(interval)
            thread.join()
        self.assertGreater(max(ran), 1, "nobody ran while 64 MiB were copied")

    def test_a_loan_that_was_not_sent_in_time_can_be_sent_later(self) -> None:
        producer = gantry.Producer(self.name, slots=1)
        consumer = gantry.Consumer(self.name, timeout=5)
        self.addCleanup(producer.drop)
        self.addCleanup(consumer.close)
        producer.wait_for_consumers(timeout=5)
        producer.send(bytes(100_000))
        with self.assertRaises(gantry.TimedOut), producer.loan(100_000, timeout=0) as loan:
            loan[:] = pattern(100_000)
        consumer.receive(5)
        producer.send(loan)
        self.assertEqual(bytes(consumer.receive(5)), pattern(100_000).tobytes())
        with producer.loan(100_000) as loan:
            view = loan[10:20]
        self.assertFalse(loan.flags.writeable)  # the promise; of a view it says the contrary
        self.assertTrue(view.flags.writeable)

    def test_born_here_ends_with_its_block(self) -> None:
        producer, _ = self.readers(1)
        with self.assertRaises(KeyError), producer.born_here():
            raise KeyError
        with self.assertRaises(gantry.InvalidArgument):
            producer.move(numpy.zeros(100_000))
