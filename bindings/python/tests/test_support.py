"""What fails in a thread or a child of a test fails the test."""

from __future__ import annotations

import os
import signal
import threading
import unittest
from collections.abc import Callable

from support import Case


def failures_of(work: Callable[[Case], None], right: frozenset[int] = frozenset({0})) -> str:
    class Inner(Case):
        expected_exits = right

        def test(self) -> None:
            work(self)

    result = unittest.TestResult()
    Inner.setUpClass()
    Inner("test").run(result)
    return "".join(text for _, text in result.failures + result.errors)


def fail() -> None:
    raise AssertionError("said there")


class Failures(unittest.TestCase):
    def test_of_a_thread(self) -> None:
        def work(_: Case) -> None:
            thread = threading.Thread(target=fail)
            thread.start()
            thread.join()

        said = failures_of(work)
        self.assertIn("said there", said)
        self.assertIn("threads of this test failed", said)

    def test_of_a_child(self) -> None:
        self.assertIn("children of this test failed", failures_of(lambda case: case.start(os._exit, 3)))
        self.assertEqual(failures_of(lambda case: case.start(os._exit, 3), frozenset({3})), "")
        crash = failures_of(lambda case: case.start(os.abort))
        self.assertIn(str(-signal.SIGABRT), crash)

    def test_of_none(self) -> None:
        self.assertEqual(failures_of(lambda case: case.start(os._exit, 0)), "")
