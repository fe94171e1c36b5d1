"""gantry.Queue in place of multiprocessing's: contents, timing, who gets what, what is left."""

import contextlib
import gc
import io
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing import forkserver
from typing import Any
from unittest import mock

import numpy
from support import FORK, FORKSERVER, SPAWN, Case, open_descriptors, pattern

import gantry
from gantry import names, queue_home, queues
from gantry.errors import TimedOut

CONTEXTS = {"fork": FORK, "spawn": SPAWN, "forkserver": FORKSERVER}


def echo(there: Any, back: Any) -> None:
    for number, item in iter(there.get, None):
        back.put((number, item))


def put_and_exit(there: Any, count: int) -> None:
    for number in range(count):
        there.put(pattern(100_000, seed=number))


def take_and_die(there: Any, back: Any) -> None:
    back.put(there.get())
    back.close()
    back.join_thread()
    os.kill(os.getpid(), signal.SIGKILL)


def make_and_die() -> None:
    kept = gantry.Queue()
    kept.put(1)
    os.kill(os.getpid(), signal.SIGKILL)


def put_again(there: Any, item: Any) -> None:
    there.put(item, timeout=20)


def put_all(there: Any, items: Any) -> None:
    for item in items:
        there.put(item)


def work(there: Any, count: int) -> None:
    for _ in range(count):
        there.get()
        there.task_done()


def pass_on(outer: Any, inner: Any) -> None:
    outer.put([inner.get(), os.getpid()])


class Unreadable:
    """Can be put, and cannot be got."""

    def __reduce__(self) -> Any:
        return unreadable, ()


def unreadable() -> None:
    raise LookupError("not to be read")


class Queues(Case):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        forkserver.ensure_running()

    def queue(self, maxsize: int = 0, **options: Any) -> Any:
        made = gantry.Queue(maxsize, **options)

        def end() -> None:
            for child in self.children:  # as long as one has it, its maker keeps it
                child.join(20)
            made.close()
            made.join_thread()

        self.addCleanup(end)
        return made

    def test_the_sockets_of_a_killed_maker_are_swept_by_the_next_queue(self) -> None:
        child = self.start(make_and_die)
        child.join(20)

        def left() -> list[str]:
            mine = f"queue-{child.pid}-"
            return [it for it in os.listdir(os.environ["GANTRY_DIR"]) if it.startswith(mine)]

        self.assertNotEqual(left(), [])
        gantry.Queue().close()
        self.assertEqual(left(), [])

    def test_an_item_that_cannot_be_read_is_nobodys(self) -> None:
        items = self.queue(redeliver=True)
        for item in (Unreadable(), "second", "third"):
            items.put(item)
        with self.assertRaises(LookupError):
            items.get(timeout=60)
        for wanted in ("second", "third"):
            self.assertEqual(items.get(timeout=60), wanted)
            items.task_done()
        items.join()  # each task_done() was for what had been got
        with self.assertRaises(ValueError):
            items.task_done()

    def test_a_queue_that_is_dropped_leaves_nothing(self) -> None:
        gc.disable()  # what goes by it goes late
        self.addCleanup(gc.enable)
        before = len(open_descriptors())
        for number in range(5):
            dropped = gantry.Queue()
            dropped.put(number)
            self.assertEqual(dropped.get(timeout=60), number)
            del dropped
        self.assertEqual(len(open_descriptors()), before)

    def test_every_object_comes_back_as_it_was(self) -> None:
        things: list[Any] = [
            None, 5, "text", b"", b"bytes" * 40_000, bytearray(b"x" * 9000), {"a": [1, (2, 3)]},
            pattern(10), pattern(4096), pattern(70_000, "float32").reshape(70, 1000),
            numpy.asfortranarray(pattern(20_000, "int16").reshape(100, 200)), pattern(5000)[::2],
            {"one": pattern(30_000), "two": [pattern(2_000_000, "float64")] * 2},
            [pattern(5000, seed=number) for number in range(100)],
        ]  # fmt: skip
        for name, context in CONTEXTS.items():
            with self.subTest(name):
                there, back = self.queue(ctx=context), self.queue(ctx=context)
                self.start(echo, there, back, context=context)
                for pair in enumerate(things):
                    there.put(pair)
                there.put(None)
                for number, thing in enumerate(things):
                    got = back.get(timeout=30)
                    self.assertEqual(got[0], number)
                    numpy.testing.assert_equal(got[1], thing)
                    del got
                self.assertTrue(back.empty())

    def test_arrays_lie_where_they_were_put_until_too_many_are_held(self) -> None:
        there = self.queue()
        held = []
        for number in range(200):
            there.put(pattern(100_000, seed=number))
            held.append(there.get(timeout=5))
        self.assertFalse(held[0].flags.writeable)
        self.assertTrue(held[-1].flags.writeable)  # a copy: all the room is taken
        for number, array in enumerate(held):
            numpy.testing.assert_array_equal(array, pattern(100_000, seed=number))
        del held, array

    def test_what_was_put_outlives_who_put_it(self) -> None:
        for name, context in CONTEXTS.items():
            with self.subTest(name):
                there = self.queue(ctx=context)
                child = self.start(put_and_exit, there, 90, context=context)
                for number in range(90):
                    if number == 10:  # the first 64 are out, the rest leave by the feeder
                        self.assertIsNone(child.exitcode)
                    numpy.testing.assert_array_equal(
                        there.get(timeout=20), pattern(100_000, seed=number)
                    )

    def test_put_keeps_what_it_was_given(self) -> None:
        there = self.queue()
        array = pattern(100_000)
        for number in range(100):  # most of them wait in this process
            array[:] = number
            there.put(array)
        for number in range(100):
            self.assertTrue((there.get(timeout=5) == number).all())

    def test_a_process_that_keeps_too_many_large_items_is_told_too(self) -> None:
        there = self.queue(redeliver=True)
        for number in range(queue_home.SLOTS + 3):
            there.put(pattern(70_000, seed=number))
        kept = [there.get(timeout=60) for _ in range(queue_home.SLOTS)]
        with self.assertRaisesRegex(gantry.Busy, r"has 64 items in hand.*64.*; call task_done\(\)"):
            there.get(timeout=1)
        self.assertEqual(there.qsize(), 3)  # which wait for room, and have the putting end
        del kept
        for _ in range(queue_home.SLOTS):
            there.task_done()
        for number in range(3):
            self.assertEqual(there.get(timeout=60).tobytes(), pattern(70_000, seed=64 + number).tobytes())
            there.task_done()

    def test_a_putter_whose_items_are_all_held_says_so(self) -> None:
        said: list[str] = []
        has_said = threading.Event()

        class Hears(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                said.append(record.getMessage())
                has_said.set()

        handler = Hears()
        logging.getLogger("gantry").addHandler(handler)
        self.addCleanup(logging.getLogger("gantry").removeHandler, handler)
        there = self.queue(5, name=self.name)
        other = gantry.Queue.attach(self.name)
        self.addCleanup(other.close)
        kept: list[Any] = []
        self.addCleanup(kept.clear)
        with mock.patch.object(queues, "_SILENT", 0.01):
            for number in range(queue_home.SLOTS):
                there.put(pattern(70_000, seed=number), timeout=60)
                kept.append((there, other)[number % 2].get(timeout=60))
            for _ in range(5):
                there.put(pattern(70_000))
            self.assertTrue(has_said.wait(60))
            for end in (there, other):
                with self.assertRaisesRegex(queue.Empty, "this process holds 32 that it got; a pro"):
                    end.get_nowait()
            with self.assertRaisesRegex(queue.Full, "getters hold all items"):
                there.put(1, timeout=0)
            self.assertEqual(there.qsize(), 5)
            kept.clear()
            for _ in range(5):
                kept.append(other.get(timeout=60))
        self.assertEqual(len(said), 1, said)
        self.assertIn("gantry: queue: getters hold all items that", said[0])

    def test_a_name_that_is_no_queues_is_refused_at_once(self) -> None:
        producer, _ = self.pair()
        inbox = gantry.Inbox(self.name + "-inbox")
        self.addCleanup(inbox.close)
        for name in (self.name, inbox.name):
            there = gantry.Queue.attach(name)
            self.addCleanup(there.close)
            uses: list[Callable[[], object]] = [
                lambda: there.get(timeout=1), lambda: there.put(1, timeout=1), there.qsize,
            ]  # fmt: skip
            for use in uses:
                with self.assertRaisesRegex(gantry.InvalidArgument, "of another kind"):
                    use()

    def test_a_name_that_nobody_has_is_said_once(self) -> None:
        self.pair()
        there = gantry.Queue.attach("misspelt")
        self.addCleanup(there.close)
        with (
            mock.patch.object(names, "PATIENCE", 0.02), mock.patch.object(queues, "_PATIENCE", 0.1),
            mock.patch.object(queues, "_ANSWER", 0.1), self.assertLogs("gantry") as said,
        ):  # fmt: skip
            with self.assertRaisesRegex(queue.Empty, "queue 'misspelt': no process has made it"):
                there.get(timeout=0.1)
            with self.assertRaisesRegex(queue.Full, "queue 'misspelt': no process has made it"):
                there.put(1, timeout=0.1)
            with self.assertRaisesRegex(TimedOut, "queue 'misspelt': no process has made it"):
                there.qsize()
        self.assertEqual(len(said.records), 1)
        told = said.records[0].getMessage()
        self.assertIn("gantry: queue 'misspelt': waiting for the process that makes it; there", told)
        self.assertIn(self.name, told)

    def test_a_process_that_keeps_too_many_is_told_what_to_call(self) -> None:
        there = self.queue(redeliver=True)
        for number in range(queue_home.SLOTS + 1):
            there.put(number)
        for number in range(queue_home.SLOTS):
            self.assertEqual(there.get(timeout=60), number)
        with self.assertRaisesRegex(gantry.Busy, r"has 64 items in hand.*64.*; call task_done\(\)"):
            there.get(timeout=60)
        there.task_done()
        self.assertEqual(there.get(timeout=60), queue_home.SLOTS)

    def test_a_get_that_gave_up_takes_nothing(self) -> None:
        there, back = self.queue(), self.queue()
        with self.assertRaises(queue.Empty):
            there.get(timeout=0.01)
        with self.assertRaises(queue.Empty):
            there.get_nowait()
        self.start(echo, there, back)
        there.put((1, 2))
        self.assertEqual(back.get(timeout=10), (1, 2))
        there.put(None)

    def test_a_queue_of_a_size(self) -> None:
        there = self.queue(2)
        there.put(1)
        self.assertFalse(there.full())
        there.put(2)
        self.assertTrue(there.full())
        for attempt in (lambda: there.put_nowait(3), lambda: there.put(3, timeout=0.01)):
            with self.assertRaises(queue.Full):
                attempt()
        self.assertEqual(there.get(), 1)
        there.put_nowait(3)
        waiting = threading.Thread(target=there.put, args=(4,))
        waiting.start()
        self.assertEqual([there.get(timeout=5) for _ in range(3)], [2, 3, 4])
        waiting.join()
        self.assertEqual(there.qsize(), 0)

    def test_a_place_that_put_did_not_use_is_anothers(self) -> None:
        there = self.queue(1)
        there.put("first")
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            there.put("second")
        timer.join()
        self.assertEqual(there.get(timeout=20), "first")
        with mock.patch.object(there, "_put_parts", side_effect=MemoryError):
            with self.assertRaises(MemoryError):
                there.put("third")
        self.start(put_again, there, "of a child")
        self.assertEqual(there.get(timeout=20), "of a child")

    def test_what_the_feeder_cannot_send_leaves_its_place(self) -> None:
        there = self.queue(1)
        there.put("first")
        self.assertEqual(there.get(timeout=20), "first")
        end = mock.Mock(wraps=there._putting)
        end.send.side_effect = [TimedOut("no room at once"), MemoryError()]
        there._putting = end
        with contextlib.redirect_stderr(io.StringIO()) as told:
            there.put("second")
            there._feeder.join()
        self.assertIn("MemoryError", told.getvalue())
        self.start(put_again, there, "of a child")
        self.assertEqual(there.get(timeout=20), "of a child")

    def test_threads_share_the_only_place(self) -> None:
        there = self.queue(1)
        threads = [
            threading.Thread(target=put_all, args=(there, range(start, 100, 4)), daemon=True)
            for start in range(4)
        ]
        for thread in threads:
            thread.start()
        self.assertEqual(sorted(there.get(timeout=20) for _ in range(100)), list(range(100)))
        for thread in threads:
            thread.join()

    def test_join_waits_for_all_that_was_put(self) -> None:
        for redeliver in (False, True):
            with self.subTest(redeliver=redeliver):
                there = self.queue(redeliver=redeliver)
                for number in range(20):
                    there.put(pattern(70_000, seed=number))
                for _ in range(2):
                    self.start(work, there, 10)
                there.join()
                self.assertEqual(there.qsize(), 0)
                with self.assertRaisesRegex(ValueError, "too many times"):
                    there.task_done()

    def test_an_item_of_a_killed_process_goes_to_another(self) -> None:
        for redeliver in (True, False):
            with self.subTest(redeliver=redeliver):
                there, seen = self.queue(redeliver=redeliver), self.queue()
                child = self.start(take_and_die, there, seen)
                there.put(pattern(300_000, seed=9))
                numpy.testing.assert_array_equal(seen.get(timeout=10), pattern(300_000, seed=9))
                child.join()
                self.assertEqual(child.exitcode, -signal.SIGKILL)
                if redeliver:
                    numpy.testing.assert_array_equal(
                        there.get(timeout=10), pattern(300_000, seed=9)
                    )
                    there.task_done()
                there.put("next")
                self.assertEqual(there.get(timeout=10), "next")
                if redeliver:
                    there.task_done()

    def test_children_have_a_queue_that_its_maker_has_closed(self) -> None:
        there, back = gantry.Queue(), self.queue()
        there.put("left for the child")
        child = self.start(pass_on, back, there)
        there.close()
        there.join_thread()
        self.assertEqual(back.get(timeout=10), ["left for the child", child.pid])
        child.join()
        gantry.Queue().close()  # ends what no process has any more

    def test_closing_one_ends_others_that_no_process_has(self) -> None:
        lingering, other = gantry.Queue(), gantry.Queue()
        child = self.start(pass_on, lingering, other)
        lingering.close()
        home = queue_home._lingering[-1]
        other.put("go on")
        child.join()
        other.close()
        self.assertNotIn(home, queue_home._lingering)

    def test_queues_travel_only_to_children(self) -> None:
        import pickle

        with self.assertRaises(RuntimeError):
            pickle.dumps(self.queue())

    def test_ctrl_c_ends_every_wait_and_loses_nothing(self) -> None:
        there, full = self.queue(), self.queue(1)
        full.put(0)
        never = self.queue()
        never.put(0)
        for name, wait in {
            "get": there.get, "put": lambda: full.put(1), "join": never.join,
        }.items():  # fmt: skip
            with self.subTest(name):
                timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
                with self.assertRaises(KeyboardInterrupt):
                    wait()
                timer.join()
        there.put("after")
        self.assertEqual(there.get(timeout=5), "after")
        self.assertEqual(full.get(timeout=5), 0)
        full.put(2, timeout=5)
        self.assertEqual(full.get(timeout=5), 2)

    def test_threads_share_a_queue(self) -> None:
        there, back = self.queue(), queue.SimpleQueue[int]()
        threads = [
            threading.Thread(target=lambda: [back.put(there.get()) for _ in range(50)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for number in range(200):
            there.put(number)
        self.assertEqual(sorted(back.get(timeout=20) for _ in range(200)), list(range(200)))
        for thread in threads:
            thread.join()


BY_HAND = """
import sys
import gantry
items = gantry.Queue.attach(sys.argv[1], redeliver=True)
results = gantry.Queue.attach(sys.argv[1] + "-results")
while (item := items.get(timeout=20)) is not None:
    results.put(item.sum(), timeout=20)
    del item
    items.task_done()
items.task_done()
for queue in (items, results):
    queue.close()
    queue.join_thread()
"""


class Named(Case):
    def test_workers_started_by_hand_attach(self) -> None:
        command = [sys.executable, "-W", "error", "-c", BY_HAND, self.name]
        workers = [subprocess.Popen(command) for _ in range(2)]  # before there is a queue
        with contextlib.ExitStack() as stack:
            stack.callback(lambda: [worker.kill() for worker in workers])
            items = gantry.Queue(4, name=self.name, redeliver=True)
            results = gantry.Queue(2, name=self.name + "-results")
            arrays = [pattern(100_000, "int32", seed) for seed in range(20)]
            putting = threading.Thread(target=put_all, args=(items, [*arrays, None, None]))
            putting.start()
            seen = sorted(int(results.get(timeout=20)) for _ in arrays)
            self.assertEqual(seen, sorted(int(array.sum()) for array in arrays))
            putting.join(20)
            self.assertEqual([worker.wait(20) for worker in workers], [0, 0])
            with self.assertRaises(gantry.AlreadyExists):
                gantry.Queue(name=self.name)
            for one in (items, results):
                one.close()
                one.join_thread()

    def test_an_attached_queue_keeps_its_makers_size(self) -> None:
        made = gantry.Queue(2, name=self.name)
        there = gantry.Queue.attach(self.name)
        there.put(1, timeout=20)
        made.put(2, timeout=20)
        with self.assertRaises(queue.Full):
            there.put(3, timeout=0.01)
        with self.assertRaisesRegex(gantry.Unsupported, "its maker alone"):
            there.full()
        self.assertEqual({made.get(timeout=20), there.get(timeout=20)}, {1, 2})
        there.put(4, timeout=20)
        self.assertEqual(made.get(timeout=20), 4)
        made.close()
        made.join_thread()
        with self.assertRaises(gantry.PeerGone):
            there.get(timeout=20)
        there.close()
