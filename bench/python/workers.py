"""Items through a queue to several workers, each of which reads them whole and sends a checksum."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from progress import Progress
from subjects import FORK, checksum

import gantry

KINDS: dict[str, Any] = {
    "gantry/Queue": gantry.Queue, "gantry/Queue many": gantry.Queue,
    "multiprocessing.Queue": FORK.Queue,
}  # fmt: skip
MANY = "gantry/Queue many"  # by put_many() and get_many()
OUT = {MANY: 256}  # items under way; 32 of others
SIZES = {64: 2000, 1 << 20: 200}  # items in a round
WORKERS = (1, 2, 4)


def work(calls: Any, results: Any) -> None:
    while (item := calls.get()) is not None:
        results.put(checksum(item))
        del item


def work_on_many(calls: Any, results: Any) -> None:
    while True:
        items = calls.get_many(64)
        found = [checksum(item) for item in items if item is not None]
        results.put_many(found)
        if len(found) < len(items):
            calls.put_many([None] * (len(items) - len(found) - 1))  # of the others
            return
        del items


def turn_of_many(calls: Any, results: Any, payload: Any, count: int) -> float:
    """The same by several at a time."""
    expected, began = checksum(payload), time.perf_counter()
    put = got = 0
    while got < count:
        room = min(OUT[MANY] - (put - got), count - put)
        if room >= min(64, count - put) > 0:
            calls.put_many([payload] * room)
            put += room
        found = results.get_many(OUT[MANY])
        if any(one != expected for one in found):
            raise SystemExit("gantry: bench python: a wrong checksum")
        got += len(found)
    return time.perf_counter() - began


def turn(calls: Any, results: Any, payload: Any, count: int) -> float:
    """The seconds that `count` items take, at most 32 of them under way."""
    expected, began = checksum(payload), time.perf_counter()
    for number in range(count):
        calls.put(payload)
        if number >= 32 and results.get() != expected:
            raise SystemExit("gantry: bench python: a wrong checksum")
    for _ in range(min(count, 32)):
        results.get()
    return time.perf_counter() - began


def measure(
    kinds: list[str], rounds: int, quick: bool, progress: Progress
) -> list[dict[str, Any]]:
    """Items a second, by size and workers."""
    found = []
    for nbytes, items in SIZES.items():
        payload = np.arange(nbytes // 8, dtype="u8")
        for workers in WORKERS:
            for name in kinds:
                calls, results = KINDS[name](), KINDS[name]()
                does, takes = (work_on_many, turn_of_many) if name == MANY else (work, turn)
                processes = [FORK.Process(target=does, args=(calls, results), daemon=True)
                             for _ in range(workers)]  # fmt: skip
                for process in processes:
                    process.start()
                count = items // 4 if quick else items
                takes(calls, results, payload, 40)
                rates = []
                for _ in range(rounds):
                    progress.step(f"workers-{workers}, {name}")
                    rates.append(count / takes(calls, results, payload, count))
                for _ in processes:
                    calls.put(None)
                for process in processes:
                    process.join()
                for queue in (calls, results):
                    queue.close()
                    queue.join_thread()
                found.append(
                    {"case": f"workers-{workers}", "subject": name, "bytes": nbytes,
                     "metric": "items", "unit": "1/s", "value": statistics.median(rates),
                     "min": min(rates), "max": max(rates), "rounds": rounds}
                )  # fmt: skip
    return found
