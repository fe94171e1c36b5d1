"""A queue whose maker is stopped: what is asked of it returns in time, and every item arrives."""

import contextlib
import os
import queue
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy
from support import FORK, Case, pattern, stopped

import gantry
from gantry import queues

TIMEOUT = 0.4  # of a wait; it may take ten times as long
PATIENCE = 60  # for what must come


def make(scene: Callable[[Any], None], options: dict[str, Any], outcome: Any) -> None:
    """The maker: it runs nothing but the queue's thread while its child plays the scene."""
    made = gantry.Queue(**options)
    child = FORK.Process(target=play, args=(scene, made, outcome))
    child.start()
    child.join()


def play(scene: Callable[[Any], None], there: Any, outcome: Any) -> None:
    try:
        scene(there)
        outcome.send("")
    except BaseException:
        outcome.send(traceback.format_exc())


@contextlib.contextmanager
def in_time(error: type[Exception], least: float = 0) -> Iterator[None]:
    begin = time.monotonic()
    try:
        yield
    except error:
        took = time.monotonic() - begin
        assert least <= took < 10 * TIMEOUT, took
        return
    raise AssertionError(f"no {error.__name__}")


def item(number: int) -> Any:
    return pattern(100_000 if number % 2 else 100, seed=number)


def expect(there: Any, number: int) -> None:
    numpy.testing.assert_array_equal(there.get(timeout=PATIENCE), item(number))


def expect_all(there: Any, numbers: range) -> None:
    """Each of them once. What was given back meanwhile may come behind what was put later."""
    left = {number: item(number) for number in numbers}
    while left:
        got = there.get(timeout=PATIENCE)
        found = [number for number, value in left.items() if numpy.array_equal(got, value)]
        assert len(found) == 1, f"none of {list(left)}"
        del left[found[0]]


def get_one(there: Any, number: int, outcome: Any) -> None:
    def body(there: Any) -> None:
        expect(there, number)
        there.task_done()

    play(body, there, outcome)


def in_another(work: Callable[..., None], *arguments: Any) -> None:
    back, outcome = FORK.Pipe(duplex=False)
    child = FORK.Process(target=work, args=(*arguments, outcome))
    child.start()
    assert back.poll(PATIENCE), "another process hangs"
    said = back.recv()
    child.join()
    assert not said, said


# ---- scenes, each in a child of the maker's


def gets(there: Any) -> None:
    there.put(item(0))
    expect(there, 0)
    with stopped(os.getppid()):
        with in_time(queue.Empty, TIMEOUT):
            there.get(timeout=TIMEOUT)
        for number in range(1, 10):
            there.put(item(number))
        with in_time(queue.Empty, TIMEOUT):
            there.get(timeout=TIMEOUT)
        with in_time(queue.Empty):
            there.get_nowait()
    expect_all(there, range(1, 10))
    assert there.empty()


def gets_by_hand(there: Any) -> None:
    gets(there)
    for _ in range(10):
        there.task_done()
    there.join()


def leaves_it_to_another(there: Any) -> None:
    there.put(item(0))
    expect(there, 0)
    with stopped(os.getppid()):
        there.put(item(1))
        with in_time(queue.Empty, TIMEOUT):
            there.get(timeout=TIMEOUT)
    in_another(get_one, there, 1)  # this process does not ask again
    assert there.empty()


def wait_in_vain(there: Any, outcome: Any) -> None:
    expect(there, 0)
    outcome.send("ready")
    with contextlib.suppress(queue.Empty):
        there.get(timeout=TIMEOUT)
    outcome.send("over")
    signal.pause()


def is_killed(there: Any) -> None:
    there.put(item(0))
    back, outcome = FORK.Pipe(duplex=False)
    child = FORK.Process(target=wait_in_vain, args=(there, outcome))
    child.start()
    assert back.poll(PATIENCE) and back.recv() == "ready"
    with stopped(os.getppid()):
        for number in range(1, 4):
            there.put(item(number))
        assert back.poll(PATIENCE) and back.recv() == "over"
        child.kill()
        child.join()
    expect_all(there, range(1, 4))


def put_one(there: Any, number: int, outcome: Any) -> None:
    play(lambda queue: queue.put(item(number), timeout=PATIENCE), there, outcome)


def puts_into_a_small_one(there: Any) -> None:
    there.put(item(0))
    expect(there, 0)
    with stopped(os.getppid()):
        for timeout in (TIMEOUT, TIMEOUT, 0):
            with in_time(queue.Full, timeout):
                there.put(item(1), timeout=timeout)
    in_another(put_one, there, 2)  # the only place is not this process's
    with in_time(queue.Full, TIMEOUT):
        there.put(item(3), timeout=TIMEOUT)
    expect(there, 2)
    for number in range(4, 9):
        there.put(item(number), timeout=PATIENCE)
        expect(there, number)


def asks_for_the_size(there: Any) -> None:
    there.put(item(0))
    assert there.qsize() == 1
    with stopped(os.getppid()), mock.patch.object(queues, "_ANSWER", TIMEOUT):
        for _ in range(2):
            with in_time(gantry.TimedOut, TIMEOUT):
                there.qsize()
        there.put(item(1))
        there.put(item(2))
    assert there.qsize() == 3
    for number in range(3):
        expect(there, number)


def begins_while_it_stands(there: Any) -> None:
    with stopped(os.getppid()):
        with in_time(queue.Empty, TIMEOUT):
            there.get(timeout=TIMEOUT)
        begin = time.monotonic()
        for number in range(4):
            there.put(item(number))
        assert time.monotonic() - begin < 10 * TIMEOUT
        with mock.patch.object(queues, "_ANSWER", TIMEOUT), in_time(gantry.TimedOut, TIMEOUT):
            there.qsize()
    expect_all(there, range(4))


def begins_to_put_while_it_stands(there: Any) -> None:
    with stopped(os.getppid()), in_time(queue.Full, TIMEOUT):
        there.put(item(0), timeout=TIMEOUT)
    there.put(item(1), timeout=PATIENCE)
    expect(there, 1)


class Stopped(Case):
    def scene(self, scene: Callable[[Any], None], **options: Any) -> None:
        back, outcome = FORK.Pipe(duplex=False)
        self.addCleanup(outcome.close)
        self.addCleanup(back.close)
        maker = self.start(make, scene, options, outcome)
        if not back.poll(PATIENCE / 2):
            maker.kill()
            self.fail("a wait is not over")
        self.assertEqual(back.recv(), "")

    def test_get_keeps_its_timeout_and_loses_nothing(self) -> None:
        self.scene(gets)
        self.scene(gets_by_hand, redeliver=True)

    def test_what_a_get_gave_up_goes_to_another(self) -> None:
        self.scene(leaves_it_to_another)
        self.scene(leaves_it_to_another, redeliver=True)

    def test_who_gave_up_and_is_killed_has_nothing(self) -> None:
        self.scene(is_killed)

    def test_put_keeps_its_timeout_and_no_place(self) -> None:
        self.scene(puts_into_a_small_one, maxsize=1)

    def test_qsize_gives_up(self) -> None:
        self.scene(asks_for_the_size)

    def test_ends_may_be_opened_meanwhile(self) -> None:
        self.scene(begins_while_it_stands)
        self.scene(begins_to_put_while_it_stands, maxsize=1)
