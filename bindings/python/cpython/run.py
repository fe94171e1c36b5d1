"""Runs CPython's own tests of queues and process pools with Gantry's in place of theirs.

usage: run.py queues|pools fork|spawn|forkserver [TEST...]      exits with 77 where they are missing
"""

from __future__ import annotations

import concurrent.futures.process
import importlib
import multiprocessing.queues
import re
import sys
import unittest
from collections.abc import Iterator

# Which of CPython's test classes are run: all of their tests but those of LEFT_OUT.
CLASSES = {
    "queues": r"WithProcessesTestQueue|TestSimpleQueue|WithProcessesTestProcess",
    "pools": r"ProcessPool(Fork|Spawn|Forkserver)[A-Z]\w*Test",
}
# What is not run, and why.
LEFT_OUT = {
    "TestSimpleQueue.test_closed": "looks at the two ends of a pipe, which Gantry's queues do not have",
}
SKIPPED = 77


def replace() -> None:
    import gantry

    for name in ("Queue", "JoinableQueue", "SimpleQueue"):
        setattr(multiprocessing.queues, name, getattr(gantry, name))
    for module in (concurrent.futures, concurrent.futures.process):
        setattr(module, "ProcessPoolExecutor", gantry.ProcessPoolExecutor)


def tests_of(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def is_wanted(name: str, what: str, method: str, words: list[str]) -> bool:
    kind = name.split(".")[0]
    if not re.fullmatch(CLASSES[what], kind) or name in LEFT_OUT:
        return False
    if what == "pools" and not re.match(f"ProcessPool{method.capitalize()}[A-Z]", kind):
        return False
    return not words or any(word in name for word in words)


def main() -> int:
    what, method, *words = sys.argv[1:]
    module = {"queues": f"test.test_multiprocessing_{method}", "pools": "test.test_concurrent_futures"}
    replace()
    try:
        tests = importlib.import_module(module[what])
    except ImportError as error:
        print(f"skipped: {error}; install libpython3.11-testsuite")
        return SKIPPED
    found = tests_of(unittest.defaultTestLoader.loadTestsFromModule(tests))
    wanted = [t for t in found if is_wanted(".".join(t.id().split(".")[-2:]), what, method, words)]
    result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(wanted))
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
