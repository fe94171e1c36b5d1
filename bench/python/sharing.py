"""What receiving leaves to the rest of a program: a thread that counts beside it, an event loop."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from progress import Progress
from subjects import FORK

import gantry

LARGE, MEDIUM = 16 << 20, 64 << 10


def stream(name: str, nbytes: int) -> None:
    """Another process: sends as fast as it is received."""
    with gantry.Producer(name, slots=8) as out:
        out.wait_for_consumers()
        payload = np.ones(nbytes // 8, "u8")
        try:
            while True:
                out.send(payload)
        except gantry.Error:
            out.drop()  # the reader has left


def count_for(seconds: float) -> float:
    """How often a thread counts in a second."""
    counts: list[int] = []
    stop = threading.Event()

    def count() -> None:
        number = 0
        while not stop.is_set():
            number += 1
        counts.append(number)

    thread = threading.Thread(target=count)
    begin = time.perf_counter()
    thread.start()
    time.sleep(seconds)
    stop.set()
    thread.join()
    return counts[0] / (time.perf_counter() - begin)


def receive_while(name: str, wanted: Any, ended: Any) -> None:
    """Another process: receives while it is wanted."""
    with gantry.Consumer(name) as consumer:
        while not ended.is_set():
            if wanted.wait(0.05):
                consumer.receive(5)


def beside_a_process(wanted: Any, seconds: float) -> float:
    """The same while another process receives: it takes as much of the CPUs as a thread would."""
    wanted.set()
    rate = count_for(seconds)
    wanted.clear()
    return rate


def beside_a_thread(consumer: gantry.Consumer, seconds: float) -> float:
    stop = threading.Event()

    def receive() -> None:
        while not stop.is_set():
            consumer.receive(5)

    thread = threading.Thread(target=receive)
    thread.start()
    rate = count_for(seconds)
    stop.set()
    thread.join()
    return rate


def blocking(consumer: gantry.Consumer, count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        consumer.receive(5)
    return count / (time.perf_counter() - begin)


def in_a_loop(consumer: gantry.Consumer, count: int) -> float:
    async def receive() -> float:
        begin = time.perf_counter()
        for _ in range(count):
            await consumer.receive_async(5)
        return count / (time.perf_counter() - begin)

    return asyncio.run(receive())


def ratio(
    case: str, nbytes: int, rounds: int, progress: Progress,
    plain: Callable[[gantry.Consumer], float], other: Callable[[gantry.Consumer], float],
) -> dict[str, Any]:  # fmt: skip
    """Of the rates of `other` and `plain`, which take turns."""
    process = FORK.Process(target=stream, args=(f"sharing-{case}", nbytes))
    process.start()
    ratios, rates = [], []
    with gantry.Consumer(f"sharing-{case}", timeout=10) as consumer:
        for _ in range(rounds):
            progress.step(case)
            base = plain(consumer)
            rates.append(other(consumer))
            ratios.append(rates[-1] / base)
    process.join()
    return {"case": case, "subject": "gantry/send", "bytes": nbytes, "metric": "ratio", "unit": "",
            "value": statistics.median(ratios), "min": min(ratios), "max": max(ratios),
            "rounds": rounds, "per_second": statistics.median(rates)}  # fmt: skip


def threads(rounds: int, seconds: float, progress: Progress) -> dict[str, Any]:
    wanted, ended = FORK.Event(), FORK.Event()
    others = [
        FORK.Process(target=stream, args=("sharing-elsewhere", LARGE)),
        FORK.Process(target=receive_while, args=("sharing-elsewhere", wanted, ended)),
    ]
    for other in others:
        other.start()
    try:
        return ratio("threads", LARGE, rounds, progress,
                     lambda _: beside_a_process(wanted, seconds),
                     lambda consumer: beside_a_thread(consumer, seconds))  # fmt: skip
    finally:
        ended.set()
        for other in others:
            other.join()


def sharing(rounds: int, quick: bool, progress: Progress) -> list[dict[str, Any]]:
    seconds, count = (0.1, 2000) if quick else (0.5, 20_000)
    return [
        threads(rounds, seconds, progress),
        ratio("asyncio", MEDIUM, rounds, progress,
              lambda c: blocking(c, count), lambda c: in_a_loop(c, count)),  # fmt: skip
    ]
