"""What is compared: ways to hand an array to another process and get eight bytes back.

Each has both sides in one class: the requester calls open_requester(), prepare(), trip(); the
responder calls answer(), which returns when it was told to stop.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from typing import Any

import numpy as np

import gantry

FORK = multiprocessing.get_context("fork")


def checksum(array: Any) -> bytes:
    """Reads all of it."""
    return int(np.add.reduce(array, dtype="u8")).to_bytes(8, "little")


def write(into: Any, random: Any) -> bytes:
    """Other words than before; their checksum."""
    into[:] = random.integers(0, 1 << 32, dtype="u8")
    into += np.arange(len(into), dtype="u8")
    return checksum(into)


class Subject:
    """Sends by `trip`, and answers by `answer`."""

    name = ""
    least = 8  # bytes that it is for
    takes_objects = False

    @classmethod
    def lack(cls) -> str:
        """Why it cannot be measured here, if so."""
        return ""

    def __init__(self, nbytes: int, cpu: int, number: int, objects: bool = False) -> None:
        self.nbytes, self.number, self.objects = nbytes, number, objects
        self.path = f"bench-{os.getpid()}-{number}"
        self.turn, self._control = FORK.Pipe()
        self.before_fork()
        self.process = FORK.Process(target=self._respond, args=(cpu,), daemon=True)
        self.process.start()
        self.payload = np.empty(nbytes // 8, "u8")

    def _respond(self, cpu: int) -> None:
        os.sched_setaffinity(0, {cpu})
        self.open_responder()
        while (count := self._control.recv()) > 0:
            for _ in range(count):
                self.answer()
            self._control.send(time.process_time())

    def start(self) -> None:
        self.open_requester()
        self.cpu_of_responder = 0.0

    def round(self, count: int, random: Any) -> tuple[float, float, float]:
        """Of the trips: the median and the 99th percentile in ns, CPU seconds a GB of all."""
        self.turn.send(count)
        times, spent = [], 0.0
        for _ in range(count):
            expected = write(self.prepare(), random)
            cpu, began = time.process_time(), time.perf_counter()
            got = self.trip()
            times.append(time.perf_counter() - began)
            spent += time.process_time() - cpu
            if bytes(got) != expected:
                raise SystemExit(f"gantry: bench python: {self.name}: a wrong checksum")
        total = self.turn.recv()
        spent, self.cpu_of_responder = spent + total - self.cpu_of_responder, total
        return (statistics.median(times) * 1e9, sorted(times)[count * 99 // 100] * 1e9,
                spent / (count * self.nbytes / 1e9))  # fmt: skip

    def stop(self) -> None:
        self.turn.send(0)
        self.process.join(10)
        self.close()

    def value(self) -> Any:
        """What is sent: the payload, or an object that holds it."""
        if not self.objects:
            return self.payload
        return {"frame": self.number, "camera": "left", "boxes": [(1, 2, 30, 40), (5, 6, 70, 80)],
                "scores": {"cat": 0.9, "dog": 0.1}, "image": self.payload}  # fmt: skip

    def array_in(self, value: Any) -> Any:
        return value["image"] if self.objects else value

    # What subjects have of their own.
    def before_fork(self) -> None: ...
    def open_responder(self) -> None: ...
    def open_requester(self) -> None: ...
    def close(self) -> None: ...

    def prepare(self) -> Any:
        """Where the payload is to be written; not timed."""
        return self.payload

    def trip(self) -> Any:
        raise NotImplementedError

    def answer(self) -> None:
        raise NotImplementedError


class GantrySend(Subject):
    name = "gantry/send"
    takes_objects = True
    waits: dict[str, Any] = {}  # how its consumers do

    def open_responder(self) -> None:
        self.requests = gantry.Consumer(self.path, pickles=self.objects, **self.waits)
        self.replies = gantry.Producer(self.path + "-back")
        self.replies.wait_for_consumers()

    def open_requester(self) -> None:
        self.out = gantry.Producer(self.path, pickles=self.objects)
        self.back = gantry.Consumer(self.path + "-back", **self.waits)
        self.out.wait_for_consumers()

    def answer(self) -> None:
        message = self.requests.receive()
        value = message.object() if self.objects else message.array
        self.replies.send(checksum(self.array_in(value)))

    def trip(self) -> Any:
        self.out.send(self.value())
        return self.back.receive().data

    def close(self) -> None:
        self.out.drop()
        self.back.close()


class GantryLoan(GantrySend):
    name = "gantry/loan"
    takes_objects = False

    def prepare(self) -> Any:
        self.lent = self.out.loan(self.nbytes // 8, "u8")
        return self.lent.__enter__()

    def trip(self) -> Any:
        self.lent.__exit__(None, None, None)
        return self.back.receive().data


class GantryPolled(GantryLoan):
    """Without the wake-ups that follow NumPy's long writing: as the C++ ways, which are not so
    long that their other side falls asleep."""

    name = "gantry/loan polled"
    waits = {"spin_ns": 50_000_000}


class GantryMove(GantrySend):
    name = "gantry/move"
    least = 32768  # smaller arrays are born in NumPy's own memory
    takes_objects = False

    def prepare(self) -> Any:
        with self.out.born_here():
            self.payload = np.empty(self.nbytes // 8, "u8")
        return self.payload

    def trip(self) -> Any:
        self.out.move(self.payload)
        return self.back.receive().data


class QueueSubject(Subject):
    """There by one queue, back by another."""

    takes_objects = True
    make: Any = None

    def before_fork(self) -> None:
        self.there, self.back = self.make(), self.make()

    def answer(self) -> None:
        self.back.put(checksum(self.array_in(self.there.get())))

    def trip(self) -> Any:
        self.there.put(self.value())
        return self.back.get()

    def close(self) -> None:
        for queue in (self.there, self.back):
            queue.close()


class GantryQueue(QueueSubject):
    name = "gantry/Queue"
    make = gantry.Queue
