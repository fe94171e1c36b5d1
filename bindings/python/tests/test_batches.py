"""gantry.Queue: small values without pickle, several items at once, and what ends in the midst."""

import contextlib
import ctypes
import io
import math
import os
import pickle
import queue
import random
import signal
import struct
import threading
import time
from multiprocessing.reduction import ForkingPickler
from typing import Any
from unittest import mock

import numpy
from support import FORK, Case, pattern

import gantry
from gantry import _core, feeder, pickles, queue_home

PLAIN: list[Any] = [
    None, True, False, 0, -1, 2**63 - 1, -(2**63), 0.0, -0.0, 1e308, float("inf"), "", "text",
    "\u00e4\U0001f600\0", b"", b"\x80bytes", (), (1,), ((((((("deep",),),),),),),), (None, (b"x", "y"), 2.5),
    tuple(range(255)), b"x" * 4091, ("a" * 1000, b"b" * 1000),
]  # fmt: skip
PICKLED: list[Any] = [
    2**63, -(2**63) - 1, b"x" * 4092, "x" * 5000, "\ud800", tuple(range(256)), ((((((((("deeper",),),),),),),),),),
    (1, [2]), ({"a": 1},), bytearray(b"x"), [1], 1j, frozenset({1}), range(5),
]  # fmt: skip


class Subclass(int):
    pass


def hold_all(there: Any, seen: Any) -> None:
    seen.put(there.get_many(10, timeout=30))
    seen.close()
    seen.join_thread()
    os.kill(os.getpid(), signal.SIGKILL)


class Unreadable:
    """Can be put, and cannot be got."""

    def __reduce__(self) -> Any:
        return unreadable, ()


def unreadable() -> None:
    raise LookupError("not to be read")


class Interrupts:
    """Ctrl-C while it is unpickled, once."""

    def __reduce__(self) -> Any:
        return interrupt, ()


class Interrupted:
    """A lock, and Ctrl-C when the main thread gives it back for the n-th time."""

    def __init__(self, nth: int) -> None:
        self._lock, self._left = threading.Lock(), nth

    def acquire(self, timeout: float = -1) -> bool:
        return self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        self._lock.release()
        if threading.current_thread() is threading.main_thread():
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *raised: object) -> None:
        self.release()


interrupted = 0


def interrupt() -> str:
    global interrupted
    interrupted += 1
    if interrupted == 1:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1_000_000):  # until its handler raises
            pass
    return "interrupted once"


class Forged:
    """A message of a queue with any bytes."""

    def __init__(self, there: Any) -> None:
        self.there = there

    def put(self, stream: bytes) -> None:
        self.there._open_putting(None).send(stream, 10, 0, 0)


class Queues(Case):
    def queue(self, maxsize: int = 0, **options: Any) -> Any:
        made = gantry.Queue(maxsize, **options)
        self.addCleanup(made.join_thread)
        self.addCleanup(made.close)
        return made


class Codes(Queues):
    def assert_same(self, got: Any, wanted: Any) -> None:
        self.assertEqual(repr(got), repr(wanted))
        self.assertIs(type(got), type(wanted))

    def test_plain_values_are_not_pickled(self) -> None:
        there = self.queue()
        with mock.patch.object(pickles.pickle, "dumps", side_effect=AssertionError), \
                mock.patch.object(pickles, "_Pickler", side_effect=AssertionError), \
                mock.patch.object(pickles.pickle, "loads", side_effect=AssertionError):  # fmt: skip
            for value in PLAIN:
                there.put(value)
                self.assert_same(there.get(timeout=30), value)
            with gantry.trace.context("00-" + "1" * 32 + "-" + "2" * 16 + "-01"):
                there.put((1, "traced"))
            self.assertEqual(there.get(timeout=30), (1, "traced"))
            self.assertEqual(there.traceparent, "00-" + "1" * 32 + "-" + "2" * 16 + "-01")

    def test_all_others_are(self) -> None:
        there = self.queue()
        for value in [*PICKLED, Subclass(5)]:
            self.assertIsNone(_core.encode_item(value))
            there.put(value)
            self.assert_same(there.get(timeout=30), value)

    def test_arrays_of_numbers_are_not_pickled(self) -> None:
        there = self.queue()
        arrays = [pattern(24, kind).reshape(2, 3, 4) for kind in "bBhHiIlLqQfd"]
        arrays += [numpy.array([True, False]), numpy.ones(3, "e"), pattern(4048), pattern(6)[1:4]]
        arrays[0].flags.writeable = False
        with mock.patch.object(pickles.pickle, "dumps", side_effect=AssertionError), \
                mock.patch.object(pickles.pickle, "loads", side_effect=AssertionError):  # fmt: skip
            for array in arrays:
                there.put(array)
            there.put_many(arrays)
            got = [there.get(timeout=30) for _ in arrays]
            while len(got) < 2 * len(arrays):
                got += there.get_many(100, timeout=30)
        for one, array in zip(got, arrays * 2, strict=True):
            self.assertEqual(one.tobytes(), array.tobytes())
            self.assertEqual((one.dtype.num, one.shape), (array.dtype.num, array.shape))
            self.assertEqual(one.flags.writeable, array.flags.writeable)
            self.assertIs(type(one), numpy.ndarray)

    def test_arrays_of_other_kinds_come_as_they_are(self) -> None:
        there = self.queue()
        known = numpy.dtype("u2", metadata={"unit": "mm"})
        for array in (
            numpy.zeros(0), numpy.array(5), numpy.ones(3, ">i4"), numpy.ones((2, 3), order="F"),
            numpy.ones((2, 4))[:, ::2], numpy.ones(3, "M8[s]"), numpy.ones(3, "U5"),
            numpy.ones(3, "complex64"), numpy.ones(3, [("a", "i2"), ("b", "f8")]),
            numpy.array([{}, 1]), numpy.ones((1,) * 9), numpy.ones(4090, "u1"), numpy.ones(3, known),
            numpy.ma.masked_array([1, 2], [True, False]),
        ):  # fmt: skip
            there.put(array)
            self.assert_same(got := there.get(timeout=30), array)
            self.assertEqual((got.dtype, got.shape), (array.dtype, array.shape))
            self.assertEqual(got.flags.f_contiguous, pickle.loads(pickle.dumps(array, 5)).flags.f_contiguous)

    def test_a_reducer_of_the_users_is_used_for_small_arrays_too(self) -> None:
        there, array = self.queue(), pattern(3)
        there.put(array)
        self.assertEqual(there.get(timeout=30).tobytes(), array.tobytes())
        own = {type(array): lambda one: (list, (one.tobytes(),))}
        with mock.patch.dict(ForkingPickler._extra_reducers, own):  # type: ignore[attr-defined]
            there.put(array)
        self.assertEqual(there.get(timeout=30), list(array.tobytes()))

    def test_hostile_bytes_are_an_error(self) -> None:
        def array(element: str, dimensions: int, extent: int, count: int) -> bytes:
            shape = struct.pack("q", extent) * dimensions
            return (
                b"a" + element.encode("latin1") + bytes([dimensions])
                + struct.pack("I", len(shape) + count) + shape + bytes(count)
            )  # fmt: skip

        there = self.queue()
        forged = Forged(there)
        deep = b"t\x01" * 9 + b"N"
        for stream in (
            b"", b"x", b"i", b"i1234567", b"f1234567", b"b", b"b\xff\xff\xff\xff", b"s\x05\0\0\0abcd",
            b"t", b"t\x02N", b"t\xff" + b"N" * 254, deep, b"NN", b"N" + b"x" * 65, b"s\x01\0\0\0\xff",
            b"b" + struct.pack("I", 4097) + b"x" * 4097,
            b"a", b"ad", b"ad\x01", b"ad\x01\x10\0\0\0" + b"\0" * 15, array("d", 1, 8, 7), array("d", 1, 0, 0),
            array("d", 1, -1, 8), array("d", 1, 2, 8), array("d", 0, 1, 8), array("d", 9, 1, 8),
            array("O", 1, 1, 8), array("\xff", 1, 1, 8), array("d", 8, 1 << 62, 8), array("d", 8, 1 << 8, 8),
        ):  # fmt: skip
            forged.put(stream)
            with self.assertRaises((gantry.PeerMisbehaved, UnicodeDecodeError), msg=stream):
                there.get(timeout=30)
        there.put("after")
        self.assertEqual(there.get(timeout=30), "after")

    def test_random_bytes_are_an_error_or_a_value(self) -> None:
        there = self.queue()
        forged = Forged(there)
        chance = random.Random(1)
        for _ in range(500):
            stream = bytearray(_core.encode_item(chance.choice(PLAIN[:-2])) or b"")
            if chance.random() < 0.3:
                stream = bytearray(_core.encode_array(numpy.ones((2, 3), chance.choice("bhifd"))) or b"")
            for _ in range(chance.randrange(3)):
                stream[chance.randrange(len(stream))] = chance.choice(b"NTFifbstaAd\0\1\xff")
            forged.put(bytes(stream[: chance.randrange(1, len(stream) + 1)]))
            with contextlib.suppress(gantry.PeerMisbehaved, UnicodeDecodeError):
                pickles.dumps_item(there.get(timeout=30))


class Batches(Queues):
    def get_all(self, there: Any, count: int, most: int = 100) -> list[Any]:
        got: list[Any] = []
        while len(got) < count:
            items = there.get_many(most, timeout=30)
            self.assertTrue(0 < len(items) <= most)
            got += items
        return got

    def test_each_comes_once_and_in_order(self) -> None:
        for maxsize in (0, 1000):
            with self.subTest(maxsize=maxsize):
                there = self.queue(maxsize)
                items = [*range(300), "x" * 5000, {"a": 1}, *PLAIN, pattern(100_000).tobytes(), *range(20)]
                there.put_many(items)
                there.put("last")
                self.assertEqual(self.get_all(there, len(items) + 1), [*items, "last"])
                with self.assertRaises(queue.Empty):
                    there.get_many(5, timeout=0.01)
                with self.assertRaises(queue.Empty):
                    there.get_many(5, False)
                there.put_many([])
                self.assertTrue(there.empty())

    def test_many_go_in_one_message(self) -> None:
        there = self.queue()
        there._open_putting(None)  # from now on all goes by messages
        there.put(0)
        end = mock.Mock(wraps=there._putting)
        there._putting = end
        there.put_many(range(1, 256))
        self.assertEqual(end.put_many.call_count, 1)
        self.assertEqual(end.send.call_count, 0)
        self.assertEqual(there.qsize(), 256)
        self.assertEqual(there.get_many(300, timeout=30), list(range(256)))

    def test_the_order_stays_when_a_large_item_goes_by_a_message(self) -> None:
        there = self.queue()
        items = [1, 2, "x" * 5000, 3, pattern(100_000).tobytes(), 4]
        for item in items:
            there.put(item)
        self.assertEqual(self.get_all(there, 6), items)
        there.put_many([*items, *items])
        self.assertEqual([there.get(timeout=30) for _ in range(12)], [*items, *items])

    def test_one_bad_item_and_nothing_is_put(self) -> None:
        there = self.queue()
        with self.assertRaises((TypeError, AttributeError)):
            there.put_many([1, 2, threading.Lock(), 3])
        self.assertEqual(there.qsize(), 0)

    def test_a_full_queue_says_how_many_were_put(self) -> None:
        there = self.queue(3)
        with self.assertRaises(queue.Full) as raised:
            there.put_many(range(5), timeout=0.01)
        self.assertEqual(raised.exception.put, 3)
        with self.assertRaises(queue.Full) as raised:
            there.put_many([7], False)
        self.assertEqual(raised.exception.put, 0)
        self.assertEqual(self.get_all(there, 3), [0, 1, 2])

    def test_an_exception_behind_the_first_batch_says_how_many_were_put(self) -> None:
        there = self.queue()
        there._open_putting(None)
        end = mock.Mock(wraps=there._putting)
        real = there._putting.put_many
        end.put_many.side_effect = [256, KeyboardInterrupt()]
        there._putting = end
        with self.assertRaises(KeyboardInterrupt) as raised:
            there.put_many(range(600))
        self.assertEqual(raised.exception.put, 256)  # type: ignore[attr-defined]
        with self.assertRaises(TypeError):
            real((b"x", 5), 1)

    def test_ctrl_c_behind_what_was_put_counts_it(self) -> None:
        interrupt_now = ctypes.PyDLL(None).PyErr_SetInterrupt  # its handler does not run at once
        interrupt_now.restype = math.hypot  # any number of seconds

        class Interrupting:
            __float__ = interrupt_now

        there = self.queue()
        end = there._open_putting(None)
        with self.assertRaises(KeyboardInterrupt) as raised:
            end.put_many((b"N",) * 5, Interrupting())
        self.assertEqual(raised.exception.put, 5)  # type: ignore[attr-defined]
        with self.assertRaises(KeyboardInterrupt) as raised:
            end.send(b"N", Interrupting(), 0, 0)
        self.assertEqual(raised.exception.put, 1)  # type: ignore[attr-defined]
        self.assertEqual(self.get_all(there, 6), [None] * 6)

    def test_ctrl_c_as_a_lock_is_given_back_loses_and_doubles_nothing(self) -> None:
        for redeliver in (False, True):
            with self.subTest(redeliver=redeliver):
                there = self.queue(redeliver=redeliver)
                there.put_many(range(3))
                there.qsize()
                there._keeping = Interrupted(1)  # type: ignore[assignment]
                with self.assertRaises(KeyboardInterrupt):
                    there.get_many(10, timeout=30)
                self.assertEqual(there.get_many(10, timeout=30), [0, 1, 2])
                for _ in range(3):
                    there.task_done()
                there.join()
        full = self.queue(3)
        full._placing = Interrupted(2)  # type: ignore[assignment]
        with self.assertRaises(KeyboardInterrupt) as raised:
            full.put_many(range(3))
        self.assertEqual(raised.exception.put, 2)  # type: ignore[attr-defined]
        full.put_nowait(2)
        with self.assertRaises(queue.Full):
            full.put_nowait(3)
        self.assertEqual(self.get_all(full, 3), [0, 1, 2])
        sent: list[Any] = []
        fed = threading.Event()

        def send(waiting: list[Any]) -> int:
            sent.extend(waiting)
            fed.set()
            return len(waiting)

        feeding = feeder.Feeder()
        feeding._lock = Interrupted(1)  # type: ignore[assignment]
        with self.assertRaises(KeyboardInterrupt) as raised:
            feeding.append(b"x", send)
        self.assertEqual(raised.exception.put, 1)  # type: ignore[attr-defined]
        self.assertTrue(fed.wait(30))
        self.assertEqual(sent, [b"x"])

    def test_what_was_put_before_an_error_is_not_put_again(self) -> None:
        for error in (gantry.TimedOut("another thread uses this end"), MemoryError()):
            with self.subTest(error=error):
                there = self.queue()
                there._open_putting(None)
                real = there._putting
                fails: list[Any] = [error]
                end = mock.Mock(wraps=real)

                def put_many(items: Any, timeout: Any) -> Any:
                    if not fails:
                        return real.put_many(items, timeout)
                    real.put_many(items[:16], timeout)
                    fails[0].put = 16  # as of C
                    raise fails.pop()

                end.put_many.side_effect = put_many
                there._putting = end
                there.put_many(range(100))
                there.put("last")
                self.assertEqual(self.get_all(there, 101), [*range(100), "last"])

    def test_the_unpicklable_is_refused_once_and_others_live(self) -> None:
        for redeliver in (False, True):
            with self.subTest(redeliver=redeliver):
                there = self.queue(redeliver=redeliver)
                there.put_many([1, 2, Unreadable(), 3, 4])
                there.qsize()
                self.assertEqual(there.get_many(10, timeout=30), [1, 2])
                with self.assertRaises(LookupError):
                    there.get_many(10, timeout=30)
                self.assertEqual(there.qsize(), 2)
                self.assertEqual(there.get(timeout=30), 3)
                self.assertEqual(there.get_many(10, timeout=30), [4])
                for _ in range(4):
                    there.task_done()
                if redeliver:
                    with self.assertRaises(ValueError):
                        there.task_done()
                    there.join()

    def test_ctrl_c_while_items_are_unpickled_loses_nothing(self) -> None:
        global interrupted
        for redeliver in (False, True):
            with self.subTest(redeliver=redeliver):
                interrupted = 0
                there = self.queue(redeliver=redeliver)
                there.put_many([1, 2, Interrupts(), 3])
                there.qsize()
                with self.assertRaises(KeyboardInterrupt):
                    there.get_many(10, timeout=30)
                self.assertEqual(there.qsize(), 4)
                self.assertEqual(there.get(timeout=30), 1)
                self.assertEqual(there.get_many(10, timeout=30), [2, "interrupted once", 3])
                for _ in range(4):
                    there.task_done()
                there.join()

    def test_ctrl_c_ends_a_wait_and_another_gets_all(self) -> None:
        there = self.queue()
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            there.get_many(10)
        timer.join()
        there.put_many(range(10))
        self.assertEqual(there.get(timeout=30), 0)  # a limit of the get before does not hold
        self.assertEqual(self.get_all(there, 9, 3), list(range(1, 10)))

    def test_a_get_has_the_limit_of_its_own(self) -> None:
        there = self.queue()
        with self.assertRaises(queue.Empty):
            there.get_many(7, timeout=0.01)
        there.put_many(range(20))
        self.assertEqual(there.get(timeout=30), 0)
        self.assertEqual(there.qsize(), 19)
        self.assertEqual(there.get_many(2, timeout=30), [1, 2])
        self.assertEqual(there.qsize(), 17)
        for wrong, error in ((0, ValueError), (-1, ValueError), ("1", TypeError)):
            with self.assertRaises(error):
                there.get_many(wrong)

    def test_a_killed_getters_batch_goes_to_another(self) -> None:
        there, seen = self.queue(redeliver=True), self.queue()
        there.put_many(range(25))
        there.qsize()
        child = self.start(hold_all, there, seen)
        self.assertEqual(seen.get(timeout=30), list(range(10)))
        child.join()
        self.assertEqual(sorted(self.get_all(there, 25)), list(range(25)))
        for _ in range(25):
            there.task_done()
        there.join()

    def test_a_process_has_no_more_in_hand_than_it_may(self) -> None:
        there = self.queue(redeliver=True)
        there.put_many(range(queue_home.SLOTS + 10))
        there.qsize()
        self.assertEqual(there.get_many(500, timeout=30), list(range(queue_home.SLOTS)))
        with self.assertRaises(gantry.Busy):
            there.get_many(5, timeout=30)
        there.task_done()
        self.assertEqual(there.get_many(5, timeout=30), [queue_home.SLOTS])

    def test_a_batch_that_is_one_too_many_waits(self) -> None:
        there = self.queue(redeliver=True)
        there.put_many(range(queue_home.SLOTS + 2))
        there.qsize()
        self.assertTrue(there._take_many(2, 30))  # as of a thread that is on its way
        got = self.get_all(there, 2, 2)
        self.assertTrue(there._take_many(queue_home.SLOTS - 2, 30))
        kept, there._kept = there._kept, []
        self.assertTrue(there._take_many(2, 30))  # of another thread, in the same moment
        there._kept += kept
        while len(got) < queue_home.SLOTS:
            got += there.get_many(500, timeout=30)
        for get in (there.get, lambda **options: there.get_many(5, **options)):
            with self.assertRaises(gantry.Busy):
                get(timeout=0)
        for _ in range(2):
            there.task_done()
        got += self.get_all(there, 2, 5)
        self.assertEqual(sorted(got), list(range(queue_home.SLOTS + 2)))

    def test_threads_share_batches(self) -> None:
        there = self.queue()
        got: list[Any] = []

        def take() -> None:
            while None not in (items := there.get_many(7, timeout=30)):
                got.extend(items)
            rest = [item for item in items if item is not None]
            got.extend(rest)
            there.put_many([None] * (len(items) - len(rest)))  # of the others

        threads = [threading.Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        there.put_many(range(500))
        there.put(None)
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(got), list(range(500)))


class Gathering(Queues):
    """The feeder sends what has gathered."""

    def test_small_items_gather_and_large_ones_go_alone(self) -> None:
        there = self.queue()
        there._open_putting(None)
        end, real = mock.Mock(), there._putting
        may_send = threading.Event()
        calls: list[Any] = []

        def put_many(items: Any, timeout: Any) -> Any:
            if not may_send.is_set():
                may_send.wait(0.01)
                return 0
            calls.append(len(items))
            return real.put_many(items, timeout)

        def send(parts: Any, timeout: Any, kind: int, user: int) -> None:
            if not may_send.is_set():
                may_send.wait(0.01)
                raise gantry.TimedOut("no room")
            calls.append(parts)
            real.send(parts, timeout, kind, user)

        end.put_many.side_effect, end.send.side_effect = put_many, send
        end.ask.side_effect = real.ask
        there._putting = end
        there.put(0)  # waits in the feeder
        large = "x" * 5000
        for number in range(1, 20):
            there.put(number)
        there.put(large)
        for number in range(20, 40):
            there.put(number)
        may_send.set()
        there._feeder.join()
        got = [there.get(timeout=30) for _ in range(41)]
        self.assertEqual(got, [*range(20), large, *range(20, 40)])
        self.assertLess(len(calls), 10, calls)

    def test_what_cannot_be_sent_does_not_take_others_along(self) -> None:
        sends: list[list[Any]] = []
        told: list[BaseException] = []
        waits = feeder.Feeder()
        go_on = threading.Event()

        def send(parts: list[Any]) -> int:
            go_on.wait()
            sends.append(parts)
            if parts[0] == b"bad":
                raise MemoryError
            return parts.index(b"bad") if b"bad" in parts else len(parts)

        for parts in (b"1", b"2", b"bad", b"3"):
            waits.append(parts, send, told.append)
        go_on.set()
        waits.join()
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual([type(error) for error in told], [MemoryError])
        self.assertEqual([parts[0] for parts in sends[-2:]], [b"bad", b"3"])
        self.assertTrue(waits.is_idle)


def count_all(there: Any, back: Any, workers: int) -> None:
    total = 0
    while True:
        items = there.get_many(256, timeout=60)
        total += len(items) - items.count(None)
        if None in items:
            break
    back.put(total)
    back.close()
    back.join_thread()


class Waiting(Queues):
    """A get() that waits in the process that made the queue, without an end."""

    @staticmethod
    def when_one_waits(there: gantry.Queue, act: Any) -> threading.Thread:
        def run() -> None:
            while there._here is None or not there._here.is_awaited:
                time.sleep(0)
            act()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def test_it_gets_small_and_large_items_of_threads_and_processes(self) -> None:
        there = self.queue()
        large = pattern(100_000).tobytes()
        process = FORK.Process(target=there.put, args=("by a process",))
        for act, item in (
            (lambda: there.put("by a thread"), "by a thread"),
            (process.start, "by a process"),
            (lambda: there.put(large), large),
        ):
            thread = self.when_one_waits(there, act)
            self.assertEqual(there.get(timeout=30), item)
            thread.join()
        process.join()
        self.assertTrue(there.empty())

    def test_ctrl_c_ends_it_and_nothing_is_lost(self) -> None:
        there = self.queue()
        thread = self.when_one_waits(there, lambda: os.kill(os.getpid(), signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            there.get()
        thread.join()
        there.put(5)
        self.assertEqual(there.get(timeout=30), 5)

    def test_close_ends_it(self) -> None:
        there = self.queue()
        child = FORK.Process(target=time.sleep, args=(60,))  # it has the queue, too
        child.start()
        thread = self.when_one_waits(there, there.close)
        with self.assertRaises((gantry.InvalidArgument, ValueError)):
            there.get()
        thread.join()
        child.kill()
        child.join()


class Workers(Queues):
    def test_idle_getters_do_not_starve(self) -> None:
        there, back = self.queue(), self.queue()
        children = [self.start(count_all, there, back, 3, context=FORK) for _ in range(3)]
        for _ in range(40):
            there.put_many(range(25))
        there.put_many([None])
        totals = [back.get(timeout=60)]
        for _ in children[1:]:
            there.put(None)
            totals.append(back.get(timeout=60))
        self.assertEqual(sum(totals), 1000)
