"""gantry.ProcessPoolExecutor: results, order, processes that die, signals."""

import os
import resource
import signal
import threading
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import forkserver
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy
from support import FORK, FORKSERVER, SPAWN, Case, open_descriptors, pattern

import gantry
from gantry.errors import TimedOut

CONTEXTS = {"fork": FORK, "spawn": SPAWN, "forkserver": FORKSERVER}


def plus(array: Any, number: int) -> Any:
    return array + array.dtype.type(number)


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(mark: str, value: int) -> int:
    """Dies where the mark is still there."""
    try:
        os.unlink(mark)
    except FileNotFoundError:
        return value * 2
    die()
    return -1


class DiesAsItIsUnpickled:
    def __reduce__(self) -> Any:
        return die, ()


class LeavesAsItIsPickled:
    def __reduce__(self) -> Any:
        raise SystemExit("as it is pickled")


class Unsendable(Exception):
    """Neither it nor what is wrong with it can be pickled."""

    def __reduce__(self) -> Any:
        class Local(Exception):
            pass

        raise Local("not here")


def raise_unsendable() -> None:
    raise Unsendable


def leave(_: object) -> None:
    raise SystemExit("of a callback")


def square(number: int) -> int:
    return number * number


class Pools(Case):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        forkserver.ensure_running()

    def pool(self, workers: int = 2, **options: Any) -> gantry.ProcessPoolExecutor:
        made = gantry.ProcessPoolExecutor(workers, **options)
        self.addCleanup(made.shutdown)
        return made

    def test_a_call_that_cannot_be_sent_fails_alone(self) -> None:
        pool = self.pool()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, limits)
        self.addCleanup(signal.signal, signal.SIGXFSZ, signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
        first = pool.submit(square, 2)
        self.assertEqual(first.result(60), 4)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 26, limits[1]))
        calls = [pool.submit(square, number) for number in range(10)]
        too_large = pool.submit(plus, numpy.zeros(100 << 20, "u1"), 1)
        calls += [pool.submit(square, number) for number in range(10, 20)]
        self.assertEqual([call.result(60) for call in calls], [n * n for n in range(20)])
        with self.assertRaises(gantry.Error):
            too_large.result(60)
        self.assertEqual(pool._pool.running, 0)

    def test_nor_does_one_that_fails_later(self) -> None:
        pool = self.pool(redeliver=2)
        self.assertEqual(pool.submit(square, 2).result(60), 4)
        calls = pool._pool.calls
        end, refusals = calls._putting, [MemoryError(), TimedOut("no room at once")]

        def send(*_: Any) -> None:
            raise refusals.pop()

        calls._putting = SimpleNamespace(send=send)
        failing = pool.submit(square, 3)
        with self.assertRaises(MemoryError):
            failing.result(60)
        calls._feeder.join()
        calls._putting = end
        bad = pool.submit(die)  # it is known by its number
        with self.assertRaisesRegex(BrokenProcessPool, "2 processes"):
            bad.result(60)
        self.assertEqual(pool.submit(square, 4).result(60), 16)
        self.assertEqual(pool._pool.running, 0)

    def test_a_call_whose_process_cannot_start_is_nobodys(self) -> None:
        for context in (FORK, SPAWN):
            pool = self.pool(mp_context=context)
            with mock.patch.object(context, "Process", side_effect=BlockingIOError):
                with self.assertRaises(BlockingIOError):
                    pool.submit(square, 2)
            self.assertEqual((len(pool._pool.works), len(pool._pool.waiting)), (0, 0))
            self.assertEqual(pool.submit(square, 3).result(60), 9)

    def test_a_pool_has_room_for_its_descriptors_or_says_so(self) -> None:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        with self.assertRaisesRegex(OSError, "1000000000 workers need .* use at most"):
            gantry.ProcessPoolExecutor(1_000_000_000)
        self.assertEqual(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 256)
        for _ in range(100):  # what a program holds before it has a pool
            held = os.open(os.devnull, os.O_RDONLY)
            self.addCleanup(os.close, held)
        pool = self.pool(12, mp_context=FORK)
        self.assertEqual(list(pool.map(square, range(50))), [i * i for i in range(50)])
        self.assertGreaterEqual(resource.getrlimit(resource.RLIMIT_NOFILE)[0], len(open_descriptors()))
        self.assertGreater(len(open_descriptors()), 256)

    def test_arrays_both_ways(self) -> None:
        for name, context in CONTEXTS.items():
            with self.subTest(name):
                pool = self.pool(mp_context=context)
                arrays = [pattern(5000 * number, "uint16", number) for number in range(30)]
                for array, got in zip(arrays, pool.map(plus, arrays, range(30))):
                    numpy.testing.assert_array_equal(got, plus(array, got[0] - array[0] if len(got) else 0))
                futures = [pool.submit(plus, arrays[i], i) for i in range(30)]
                for i, future in enumerate(futures):
                    numpy.testing.assert_array_equal(future.result(20), plus(arrays[i], i))
                del futures, future, got
                self.assertEqual(list(pool.map(square, range(100), chunksize=7)),
                                 [square(i) for i in range(100)])  # fmt: skip

    def test_more_results_may_be_held_than_there_is_room_for(self) -> None:
        pool = self.pool(1)
        futures = [pool.submit(plus, pattern(50_000, seed=i), 1) for i in range(150)]
        for i, future in enumerate(futures):
            numpy.testing.assert_array_equal(future.result(20), plus(pattern(50_000, seed=i), 1))
        del futures, future

    def test_a_killed_process_breaks_the_pool(self) -> None:
        pool = self.pool()
        with self.assertRaises(BrokenProcessPool):
            pool.submit(die).result(20)
        with self.assertRaises(BrokenProcessPool):
            pool.submit(square, 1)

    def test_or_its_calls_go_to_others(self) -> None:
        for name, context in CONTEXTS.items():
            with self.subTest(name):
                pool = self.pool(mp_context=context, redeliver=True)
                marks = [Path(os.environ["GANTRY_DIR"]) / f"mark-{i}" for i in range(4)]
                for mark in marks:
                    mark.touch()
                futures = [pool.submit(die_once, str(mark), i) for i, mark in enumerate(marks)]
                others = [pool.submit(square, i) for i in range(40)]
                self.assertEqual([future.result(60) for future in futures], [0, 2, 4, 6])
                self.assertEqual([other.result(60) for other in others], [i * i for i in range(40)])

    def test_a_call_that_kills_each_process_is_given_up(self) -> None:
        pool = self.pool(redeliver=2)
        bad = [pool.submit(die), pool.submit(square, DiesAsItIsUnpickled())]
        good = [pool.submit(square, i) for i in range(20)]
        for future in bad:
            with self.assertRaisesRegex(BrokenProcessPool, "2 processes"):
                future.result(60)
        self.assertEqual([future.result(60) for future in good], [i * i for i in range(20)])

    def test_what_cannot_be_sent_fails_alone(self) -> None:
        pool = self.pool()
        with self.assertRaises(Exception) as caught:
            pool.submit(square, lambda: 0).result(20)
        self.assertIn("pickle", str(caught.exception))
        self.assertEqual(pool.submit(square, 3).result(20), 9)

    def test_an_error_that_cannot_be_sent_is_told_by_its_text(self) -> None:
        pool = self.pool(1)
        with self.assertRaisesRegex(RuntimeError, "Local: not here"):
            pool.submit(raise_unsendable).result(timeout=30)
        self.assertEqual(pool.submit(square, 3).result(timeout=30), 9)

    def test_a_callback_that_raises_is_no_other_calls(self) -> None:
        for call, argument in ((square, 2), (raise_unsendable, None)):
            pool = self.pool(1)
            with self.assertLogs("concurrent.futures"):
                first = pool.submit(call, *[argument] * (argument is not None))
                first.add_done_callback(leave)
                self.assertEqual(pool.submit(square, 5).result(timeout=30), 25)
            pool.shutdown()

    def test_nor_is_an_object_that_leaves_as_it_is_pickled(self) -> None:
        pool = self.pool(1)
        calls = [pool.submit(square, number) for number in range(6)]  # more than find room
        calls.append(pool.submit(square, LeavesAsItIsPickled()))
        calls += [pool.submit(square, number) for number in range(6)]
        with self.assertRaises(SystemExit):
            calls[6].result(timeout=30)
        self.assertEqual(
            [call.result(timeout=30) for call in calls[:6] + calls[7:]],
            [number * number for number in range(6)] * 2,
        )

    def test_ctrl_c_in_result(self) -> None:
        pool = self.pool(1)
        block = FORK.Event()
        waiting = gantry.ProcessPoolExecutor(1, mp_context=FORK, initializer=block.wait)
        future = waiting.submit(square, 2)
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            future.result()
        timer.join()
        block.set()
        self.assertEqual(future.result(20), 4)
        waiting.shutdown()
        self.assertEqual(pool.submit(square, 4).result(20), 16)

    def test_one_that_was_forgotten_ends_its_processes(self) -> None:
        pool = gantry.ProcessPoolExecutor(2)
        future = pool.submit(square, 5)
        manager = pool._executor_manager_thread
        del pool
        self.assertEqual(future.result(20), 25)
        assert manager is not None
        manager.join(20)
        self.assertFalse(manager.is_alive())
        gantry.ProcessPoolExecutor(2)  # never used
