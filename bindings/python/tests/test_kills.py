"""Workers are killed under load: nothing is lost, nothing is wrong, nothing is left.

Alone, as a longer run: test_kills.py KILLS [fork|spawn|forkserver]
"""

import os
import random
import signal
import sys
import time
from typing import Any

import numpy
from support import FORK, FORKSERVER, SPAWN, Case, open_descriptors, pattern

import gantry

WORKERS = 4
OUTSTANDING = 24
SIZES = (10, 3000, 50_000, 200_000)


def item_of(number: int) -> Any:
    return pattern(SIZES[number % len(SIZES)], seed=number)


def work(calls: Any, results: Any) -> None:
    for number, array in iter(calls.get, None):
        numpy.testing.assert_array_equal(array, item_of(number))
        results.put((number, array))
        del array
        calls.task_done()
    calls.task_done()


def settled_descriptors(expected: int) -> int:
    """How many are open, when what departed processes left has been taken in."""
    deadline = time.monotonic() + 10
    while (count := len(open_descriptors())) != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    return count


class Kills(Case):
    kills = 200
    context = FORK

    def test_no_item_is_lost(self) -> None:
        calls = gantry.Queue(ctx=self.context, redeliver=True)
        results = gantry.Queue(ctx=self.context)
        workers = [self.worker(calls, results) for _ in range(WORKERS)]
        choose = random.Random(7)
        put, seen, killed, baseline = 0, set[int](), 0, 0
        while killed < self.kills or len(seen) < put:
            while killed < self.kills and put - len(seen) < OUTSTANDING:
                calls.put((put, item_of(put)))
                put += 1
            number, array = results.get(timeout=60)
            numpy.testing.assert_array_equal(array, item_of(number))
            del array
            seen.add(number)
            if killed == self.kills or choose.random() < 0.6:
                continue
            index = choose.randrange(WORKERS)
            os.kill(workers[index].pid, signal.SIGKILL)
            workers[index].join()
            workers[index].close()
            workers[index] = self.worker(calls, results)
            killed += 1
        self.assertEqual(seen, set(range(put)))
        for turn in range(3):  # workers come and go, with nothing in hand: a constant count
            os.kill(workers[0].pid, signal.SIGKILL)
            workers[0].join()
            workers[0].close()
            count = settled_descriptors(baseline)
            baseline = baseline or count
            self.assertEqual(count, baseline, f"turn {turn}")
            workers[0] = self.worker(calls, results)
        for _ in workers:
            calls.put(None)
        calls.join()
        for worker in workers:
            worker.join()
            worker.close()
        print(f"{killed} kills, {put} items, {results.qsize()} came twice after their result",
              file=sys.stderr)  # fmt: skip
        for queue in (calls, results):
            queue.close()
            queue.join_thread()

    def worker(self, calls: Any, results: Any) -> Any:
        made = self.context.Process(target=work, args=(calls, results))
        made.start()
        return made


class PoolKills(Case):
    kills = 50
    context = FORK

    def test_no_call_is_lost(self) -> None:
        choose = random.Random(8)
        with gantry.ProcessPoolExecutor(WORKERS, self.context, redeliver=1000) as pool:
            killed, number = 0, 0
            futures: dict[int, Any] = {}
            while killed < self.kills or futures:
                while killed < self.kills and len(futures) < OUTSTANDING:
                    futures[number] = pool.submit(numpy.negative, item_of(number))
                    number += 1
                first = next(iter(futures))
                result = futures.pop(first).result(60)
                numpy.testing.assert_array_equal(result, numpy.negative(item_of(first)))
                del result
                if killed < self.kills and choose.random() < 0.4:
                    choose.choice(list(pool._pool.processes.values())).kill()
                    killed += 1


if __name__ == "__main__":
    import unittest

    Kills.kills = PoolKills.kills = int(sys.argv.pop(1)) if len(sys.argv) > 1 else Kills.kills
    method = sys.argv.pop(1) if len(sys.argv) > 1 else "fork"
    Kills.context = PoolKills.context = {"fork": FORK, "spawn": SPAWN, "forkserver": FORKSERVER}[method]
    unittest.main()
