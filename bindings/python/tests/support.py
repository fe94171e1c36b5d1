"""What the tests share: a directory of their own, other processes, what is open."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
import traceback
import unittest
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from typing import Any

if "GANTRY_DIR" not in os.environ:  # a child that was spawned has it
    os.environ["GANTRY_DIR"] = tempfile.mkdtemp(prefix="gantry-python-")
    atexit.register(shutil.rmtree, os.environ["GANTRY_DIR"], True)

import numpy  # noqa: E402

import gantry  # noqa: E402
from gantry import queue_home  # noqa: E402

CRASHES = {signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
FORK = multiprocessing.get_context("fork")
SPAWN = multiprocessing.get_context("spawn")
FORKSERVER = multiprocessing.get_context("forkserver")


def pattern(count: int, dtype: Any = "uint8", seed: int = 1) -> numpy.ndarray[Any, Any]:
    """Bytes that differ everywhere, as elements of any type."""
    kind = numpy.dtype(dtype)
    random = numpy.random.default_rng(seed)
    if kind.kind == "b":
        return random.integers(0, 2, count).astype(kind)
    if kind.kind in "iu":
        return random.integers(0, 256, count * kind.itemsize, dtype="uint8").view(kind)
    return random.standard_normal(count).astype(kind)


def open_descriptors() -> list[str]:
    """What is open, as the kernel names it."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists them
            found.append(f"{number} {os.readlink('/proc/self/fd/' + number)}")
    return sorted(found)


def shared_memory() -> set[str]:
    """Without what multiprocessing, Open MPI and benchmarks' peers make and remove beside this."""
    # A semaphore is sem.XXXXXX before it is sem.mp-...
    others = ("sem.", "psm_", "pym-", "vader_segment", "gantry-bench-", "iceoryx")
    return {name for name in os.listdir("/dev/shm") if not name.startswith(others)}


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """The process stands still meanwhile, with all its threads."""
    os.kill(pid, signal.SIGSTOP)
    try:
        while not _stands_still(pid):  # kill(2) returns before
            os.sched_yield()
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _stands_still(pid: int) -> bool:
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat") as stat:
            if stat.read().rpartition(")")[2].split()[0] != "T":
                return False
    return True


class Case(unittest.TestCase):
    """Fails if a test leaves a descriptor, a child or a file in /dev/shm behind, and if one of its
    threads or children fails: `expected_exits` are the statuses of children that are right."""

    expected_exits: frozenset[int] = frozenset({0})

    @classmethod
    def setUpClass(cls) -> None:  # what a process opens once is open before they are counted
        with contextlib.suppress(gantry.TimedOut):
            gantry.Consumer("nobody", timeout=0.001)
        gantry.Inbox("warm-inbox").close()
        producer = gantry.Producer("warm", slots=1)
        consumer = gantry.Consumer("warm")
        producer.wait_for_consumers()
        producer.send(bytes(100_000))
        with contextlib.suppress(gantry.TimedOut):
            producer.send(bytes(100_000), timeout=0.001)
        producer.drop()
        consumer.close()
        resource_tracker.ensure_running()
        cls.kept = FORK.RawArray("b", 1)  # lies in a file, as others and barriers do

    def setUp(self) -> None:
        self.shared_memory = shared_memory()
        self.descriptors = open_descriptors()
        self.children: list[Any] = []
        self.thread_errors: list[str] = []
        before = threading.excepthook
        self.addCleanup(setattr, threading, "excepthook", before)
        threading.excepthook = self.note_error
        self.name = f"{self._testMethodName}-{os.getpid()}"

    def note_error(self, raised: threading.ExceptHookArgs) -> None:
        name = raised.thread.name if raised.thread else "a thread"
        trace = traceback.format_exception(raised.exc_type, raised.exc_value, raised.exc_traceback)
        self.thread_errors.append(f"{name}: {''.join(trace)}")

    def tearDown(self) -> None:
        self.doCleanups()  # before descriptors are counted
        exits: list[int] = []
        for child in self.children:
            child.join(20)
            if child.is_alive():
                child.kill()
                child.join()
                self.fail("a child hangs")
            exits.append(child.exitcode)
            child.close()
        self.children.clear()
        self.assertEqual(self.thread_errors, [], "threads of this test failed")
        failed = {it for it in exits if it > 0 or -it in CRASHES} - self.expected_exits
        self.assertEqual(failed, set(), "children of this test failed")
        deadline = time.monotonic() + 3  # what threads of the library's close after their end
        while len(shared := shared_memory() - self.shared_memory) > 0:
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)  # others', perhaps
        self.assertEqual(shared, set())
        deadline = time.monotonic() + 3
        while len(left := self.left_open()) > 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(left, [])

    def left_open(self) -> list[str]:
        queue_home.sweep()  # a queue of a child that ended later ends with what comes next
        now = open_descriptors()
        return [it for it in now if it not in self.descriptors][: max(0, len(now) - len(self.descriptors))]

    def start(self, work: Callable[..., None], *arguments: Any, context: Any = FORK) -> Any:
        child = context.Process(target=work, args=arguments)
        child.start()
        self.children.append(child)
        return child

    def pair(self, **options: Any) -> tuple[gantry.Producer, gantry.Consumer]:
        """Both ends in this process."""
        pickles = options.pop("pickles", False)
        producer = gantry.Producer(self.name, pickles=pickles, **options)
        consumer = gantry.Consumer(self.name, pickles=pickles, timeout=5)
        producer.wait_for_consumers(timeout=5)
        self.addCleanup(producer.drop)
        self.addCleanup(consumer.close)
        return producer, consumer
