"""Spans: what `gantry trace` has of them, and what cannot be one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from typing import Any

import gantry
from gantry import trace
from support import FORK, SPAWN, Case, pattern


def in_microseconds(event: dict[str, Any]) -> tuple[float, float]:
    return event["ts"], event["ts"] + event["dur"]


def work_alone() -> None:
    """In a process that has no end of a channel."""
    with trace.span("alone"):
        pass


def work_after_its_parent() -> None:
    with trace.span("of the child"):
        pass


@unittest.skipUnless(os.environ.get("GANTRY_PROGRAM"), "GANTRY_PROGRAM is not set")
class Spans(Case):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "trace.json")

    def record(self) -> subprocess.Popen[str]:
        recorder = subprocess.Popen(
            [os.environ["GANTRY_PROGRAM"], "trace", "-o", self.file, "--seconds", "10min"],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        control = os.path.join(os.environ["GANTRY_DIR"], "trace", "control")
        while not os.path.exists(control):
            self.assertIsNone(recorder.poll())
            time.sleep(0.01)
        return recorder

    def noticed(self) -> None:
        """Until this process knows that it is recorded."""
        folder = os.path.join(os.environ["GANTRY_DIR"], "trace")
        while not any(name.startswith(f"{os.getpid()}-") for name in os.listdir(folder)):
            with trace.span("is it seen?"):
                time.sleep(0.01)

    def finish(self, recorder: subprocess.Popen[str]) -> list[dict[str, Any]]:
        recorder.send_signal(signal.SIGINT)
        _, said = recorder.communicate(timeout=60)
        self.assertEqual(recorder.returncode, 0, said)
        with open(self.file) as file:
            return list(json.load(file)["traceEvents"])

    def one(self, events: list[dict[str, Any]], name: str) -> dict[str, Any]:
        found = [it for it in events if it["name"] == name and it["ph"] == "X"]
        self.assertEqual(len(found), 1, (name, found))
        return found[0]

    def test_a_span_has_the_send_that_was_made_in_it(self) -> None:
        recorder = self.record()
        self.noticed()
        producer, consumer = self.pair()
        with trace.span("encode"):
            producer.send(pattern(100_000))
        consumer.receive(5)
        producer.drop()
        consumer.close()
        events = self.finish(recorder)
        span, send = self.one(events, "encode"), self.one(events, "send")
        self.assertEqual((span["pid"], send["pid"]), (os.getpid(), os.getpid()))
        self.assertLessEqual(in_microseconds(span)[0], in_microseconds(send)[0])
        self.assertGreaterEqual(in_microseconds(span)[1], in_microseconds(send)[1])
        track = [it for it in events if it["name"] == "thread_name" and it["tid"] == span["tid"]]
        self.assertRegex(track[0]["args"]["name"], "^thread ")

    def test_functions_and_coroutines_are_decorated(self) -> None:
        @trace.span("decode")
        def decode(a: int, *, b: int) -> int:
            """Adds."""
            return a + b

        @trace.span("fetch")
        async def fetch(first: asyncio.Event, then: asyncio.Event) -> str:
            first.set()
            await then.wait()
            return "fetched"

        async def both() -> list[str]:
            one, two, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
            tasks = [asyncio.create_task(fetch(it, go)) for it, go in [(one, two), (two, go_on)]]
            await two.wait()
            go_on.set()
            return await asyncio.gather(*tasks)

        self.assertEqual((decode.__name__, decode.__doc__), ("decode", "Adds."))
        self.assertTrue(asyncio.iscoroutinefunction(fetch))
        recorder = self.record()
        self.noticed()
        self.assertEqual([decode(1, b=2), decode(3, b=4)], [3, 7])
        self.assertEqual(asyncio.run(both()), ["fetched"] * 2)
        with self.assertRaises(ZeroDivisionError), trace.span("raises"):
            1 / 0
        with trace.span("outer"), trace.span("inner"):
            pass
        events = self.finish(recorder)
        self.assertEqual(len([it for it in events if it["name"] == "decode"]), 2)
        self.one(events, "raises")
        # The second began within the first and ended behind it: it has a track of its own.
        slices = [it for it in events if it["name"] == "fetch"]
        first, second = sorted(slices, key=in_microseconds)
        self.assertLess(in_microseconds(second)[0], in_microseconds(first)[1])
        self.assertLess(in_microseconds(first)[1], in_microseconds(second)[1])
        self.assertNotEqual(first["tid"], second["tid"])
        # What lies within another is in the same one.
        outer, inner = self.one(events, "outer"), self.one(events, "inner")
        self.assertEqual((outer["tid"], inner["tid"]), (first["tid"], first["tid"]))

    def test_threads_have_tracks_of_their_own(self) -> None:
        recorder = self.record()
        self.noticed()
        with trace.span("here"):
            thread = threading.Thread(target=trace.span("there")(lambda: None))
            thread.start()
            thread.join()
        events = self.finish(recorder)
        self.assertNotEqual(self.one(events, "here")["tid"], self.one(events, "there")["tid"])

    def test_processes_without_an_end_have_spans(self) -> None:
        recorder = self.record()
        child = self.start(work_alone, context=SPAWN)
        pid = child.pid
        child.join(30)
        self.assertEqual(child.exitcode, 0)
        self.assertEqual(self.one(self.finish(recorder), "alone")["pid"], pid)

    def test_a_child_of_fork_has_its_own(self) -> None:
        recorder = self.record()
        self.noticed()  # its parent has some
        child = self.start(work_after_its_parent, context=FORK)
        pid = child.pid
        child.join(30)
        self.assertEqual(child.exitcode, 0)
        self.assertEqual(self.one(self.finish(recorder), "of the child")["pid"], pid)

    def test_a_long_name_is_cut_behind_a_character(self) -> None:
        recorder = self.record()
        self.noticed()
        for name in ("x" * 40, "ü" * 20, "y" * 31):
            with trace.span(name):
                pass
        names = {it["name"] for it in self.finish(recorder) if it["ph"] == "X"}
        self.assertLessEqual({"x" * 31, "ü" * 15, "y" * 31}, names)


class Refusals(unittest.TestCase):
    def test_bad_names_are_one_clear_error(self) -> None:
        for name in (7, None, b"bytes"):
            with self.assertRaisesRegex(TypeError, "^name: a str is needed, not "):
                trace.span(name)  # type: ignore[arg-type]
        with self.assertRaises(gantry.InvalidArgument) as caught:
            trace.span("")
        self.assertEqual(caught.exception.message, "name: the span has none")
        with self.assertRaisesRegex(gantry.InvalidArgument, "^name: there is a NUL in it"):
            trace.span("de\0code")
        with self.assertRaises(TypeError):
            trace.span()  # type: ignore[call-arg]

    def test_a_span_is_in_one_block_at_a_time(self) -> None:
        span = trace.span("once")
        for _ in range(2):
            with span as entered:
                self.assertIs(entered, span)
                with self.assertRaisesRegex(gantry.InvalidArgument, "it goes on already"):
                    span.__enter__()

    def test_generators_are_not_decorated(self) -> None:
        async def later() -> Any:
            yield 1

        for function in (later, lambda: (yield)):
            with self.assertRaisesRegex(gantry.InvalidArgument, "span 'items': a generator"):
                trace.span("items")(function)


if __name__ == "__main__":
    unittest.main()
