"""The W3C trace context that goes with calls, items and calls of pools."""

from __future__ import annotations

import asyncio
import importlib.util
import multiprocessing
import os
import pickle
import sys
import threading
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy

import gantry
from gantry import rpc, trace
from support import FORK, Case, pattern

ONE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TWO = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
NONSENSE: list[Any] = [
    "", "00", ONE[:-1], ONE + "0", ONE + "\n", ONE.upper(), "ff" + ONE[2:], ONE.replace("-", "_"),
    "00-" + "0" * 32 + ONE[35:], ONE[:36] + "0" * 16 + "-01", "x" * 55, "٣" * 55,
    "\0" * 55, ONE.encode(), 7, None, [ONE],
]  # fmt: skip


@contextmanager
def serving(case: Case, answer: Callable[[rpc.Request], Any], **options: Any) -> Iterator[rpc.Client]:
    """A server on a thread of its own."""
    name = case.name + "-server"
    server = rpc.Server(name, **options)
    thread = threading.Thread(target=serve, args=(server, answer))
    thread.start()
    try:
        with rpc.Client(name, timeout=5, **options) as client:
            yield client
    finally:
        server.close()
        thread.join()


def serve(server: rpc.Server, answer: Callable[[rpc.Request], Any]) -> None:
    try:
        server.serve(answer)
    except gantry.Error:
        pass  # it was closed


def told(text: str | None) -> bytes:
    return (text or "none").encode()


class Unsayable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Serving(Case):
    def test_no_exception_ends_the_loop(self) -> None:
        name = b"caf\xe9".decode("utf-8", "surrogateescape")  # as a file's that is not UTF-8
        raised = [
            (lambda: OSError(2, "no such file", name), r"caf\\udce9"),
            (lambda: ValueError("\ud800"), r"ValueError: \\ud800"),
            (Unsayable, "Unsayable, whose text raises RuntimeError"),
            (lambda: gantry.InvalidArgument("\udfff", "mend \udfff"), r"\\udfff"),
        ]  # fmt: skip

        def answer(request: rpc.Request) -> Any:
            which = int(bytes(request))
            if which == len(raised):
                return b"well"
            raise raised[which][0]()

        with serving(self, answer) as client:
            for which, (_, words) in enumerate(raised):
                with self.assertRaisesRegex(gantry.Error, words):
                    client.call(b"%d" % which, timeout=5)
            self.assertEqual(bytes(client.call(b"%d" % len(raised), timeout=5)), b"well")


@unittest.skipIf(importlib.util.find_spec("opentelemetry"), "OpenTelemetry is installed")
class WithoutOpenTelemetry(Case):
    def test_it_is_current_within_its_block(self) -> None:
        self.assertIsNone(trace.traceparent())
        with trace.context(ONE):
            self.assertEqual(trace.traceparent(), ONE)
            with trace.context(TWO):
                self.assertEqual(trace.traceparent(), TWO)
            for nonsense in NONSENSE:
                with trace.context(nonsense):
                    self.assertEqual(trace.traceparent(), ONE)
        self.assertIsNone(trace.traceparent())

    def test_an_item_has_what_was_current_where_it_was_put(self) -> None:
        queue = gantry.Queue()
        self.addCleanup(queue.close)
        self.assertIsNone(queue.traceparent)
        items = [7, "text", None, [1, 2], {"big": pattern(100_000, "f4")}]
        for number, item in enumerate(items):
            for current in (ONE, None, TWO):
                with trace.context(current):
                    queue.put(item)
                got = queue.get()
                self.assertEqual(queue.traceparent, current)
                numpy.testing.assert_equal(got, item)
                del got

    def test_each_thread_has_its_own(self) -> None:
        queue = gantry.Queue()
        self.addCleanup(queue.close)
        with trace.context(ONE):
            queue.put(1)
        queue.put(2)
        self.assertEqual(queue.get(), 1)
        thread = threading.Thread(target=queue.get)
        thread.start()
        thread.join()
        self.assertEqual(queue.traceparent, ONE)

    def test_items_without_one_are_as_long_as_they_were(self) -> None:
        queue = gantry.Queue()
        self.addCleanup(queue.close)
        for value, segments in [(7, 1), ([pattern(5000)], 2)]:
            for current in (None, ONE):
                with trace.context(current):
                    queue.put(value)
                core = queue._take(5)
                assert core is not None
                stream = len(bytes(memoryview(core.segment(0, True))))  # type: ignore[arg-type]
                if current is None:
                    plain = stream
                self.assertEqual(core.segments, segments)
                self.assertEqual(stream - plain, 0 if current is None else 68)

    def test_an_item_with_nonsense_behind_it_is_that_item(self) -> None:
        queue = gantry.Queue()
        self.addCleanup(queue.close)
        for nonsense in NONSENSE:
            text = nonsense if isinstance(nonsense, bytes) else str(nonsense).encode()
            for behind in (b"traceparent: " + text, text, b"\xff" * 68):
                if behind == b"traceparent: " + ONE.encode():
                    continue
                queue._put_parts(pickle.dumps([1, "two"], 5) + behind)
                self.assertEqual(queue.get(), [1, "two"])
                self.assertIsNone(queue.traceparent)

    def test_a_call_has_what_was_current_where_it_was_made(self) -> None:
        seen: list[Any] = []

        def answer(request: rpc.Request) -> bytes:
            seen.append((len(request), request.nbytes, bytes(request), request.traceparent))
            return told(trace.traceparent())

        array = pattern(100_000)
        with serving(self, answer) as client:
            for value in (b"small", array, b""):
                for current in (ONE, None, TWO):
                    with trace.context(current):
                        self.assertEqual(bytes(client.call(value, timeout=5)), told(current))
                    data = bytes(value)
                    self.assertEqual(seen.pop(), (1, len(data), data, current))

    def test_objects_messages_and_tables_are_as_they_were(self) -> None:
        producer, consumer = self.pair()
        arrays = [pattern(5000, seed=n) for n in range(100)]  # more than there are segments
        got: list[Any] = []

        def answer(request: rpc.Request) -> bytes:
            got.append(request.object() if request.type else bytes(request))
            return told(request.traceparent)

        with serving(self, answer, pickles=True) as client, trace.context(ONE):
            self.assertEqual(bytes(client.call(arrays, timeout=5)), ONE.encode())
            numpy.testing.assert_equal(got.pop(), arrays)
            for parts, carries in [(1, True), (63, True), (64, False)]:  # 64: there is no room
                values = [bytes([n]) * 100 for n in range(parts)]
                producer.send_parts(*values)
                reply = client.call(consumer.receive(5), timeout=5)
                self.assertEqual(bytes(reply), told(ONE if carries else None))
                self.assertEqual(got.pop(), b"".join(values))

    def test_what_reads_as_one_is_the_users(self) -> None:
        producer, consumer = self.pair()
        seen: list[Any] = []

        def answer(request: rpc.Request) -> bytes:
            seen.append([bytes(request.segment(n)) for n in range(len(request))])
            return told(request.traceparent)

        with serving(self, answer) as client:
            for last in (b"traceparent: " + ONE.encode(), trace.NOTHING):
                for parts in (0, 1, 62, 63):
                    values = [bytes([n]) * 100 for n in range(parts)] + [last]
                    for current in (TWO, None):
                        producer.send_parts(*values)
                        with trace.context(current):
                            if parts == 63:  # there is no room
                                with self.assertRaisesRegex(gantry.InvalidArgument, "its last segment"):
                                    client.call(consumer.receive(5), timeout=5)
                                continue
                            reply = client.call(consumer.receive(5), timeout=5)
                        self.assertEqual(bytes(reply), told(current))
                        self.assertEqual(seen.pop(), values)

    def test_a_hostile_clients_nonsense_is_a_segment(self) -> None:
        with serving(self, lambda request: told(request.traceparent)) as client:
            for nonsense in NONSENSE:
                text = nonsense if isinstance(nonsense, bytes) else str(nonsense).encode()
                if text == ONE.encode():
                    continue
                for last in (b"traceparent: " + text, b"\xff" * 68):
                    call = client._core.begin_call((b"value", last), 5, 0, 0)
                    reply = call.wait(None)
                    assert reply is not None
                    self.assertEqual(bytes(rpc.Message(reply, False)), b"none")

    def test_calls_of_a_pool_have_that_of_submit(self) -> None:
        with gantry.ProcessPoolExecutor(1, FORK) as pool:
            futures = []
            for turn in range(12):  # more than are handed out at once
                with trace.context((ONE, None, TWO)[turn % 3]):
                    futures.append(pool.submit(trace.traceparent))
            for turn, future in enumerate(futures):
                self.assertEqual(future.result(30), (ONE, None, TWO)[turn % 3])


STANDIN = os.path.join(os.path.dirname(__file__), "standin")
SPAN_ONE = (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, 1)
SPAN_TWO = (0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, 0)


class WithOpenTelemetry(Case):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        if importlib.util.find_spec("opentelemetry"):
            raise unittest.SkipTest("OpenTelemetry is installed")
        sys.path.insert(0, STANDIN)
        trace._opentelemetry.cache_clear()
        cls.contexts = importlib.import_module("opentelemetry.context")

    @classmethod
    def tearDownClass(cls) -> None:
        sys.path.remove(STANDIN)
        for name in [it for it in sys.modules if it.partition(".")[0] == "opentelemetry"]:
            del sys.modules[name]
        trace._opentelemetry.cache_clear()

    @contextmanager
    def span(self, span: Any) -> Iterator[None]:
        token = self.contexts.attach(self.contexts.set_value("current-span", span))
        try:
            yield
        finally:
            self.contexts.detach(token)

    def test_context_is_theirs(self) -> None:
        with self.span(SPAN_ONE):
            self.assertEqual(trace.traceparent(), ONE)
            with trace.context(TWO):
                self.assertEqual(current_span(), SPAN_TWO)
            for nonsense in NONSENSE:
                with trace.context(nonsense):
                    self.assertEqual(current_span(), SPAN_ONE)
        self.assertIsNone(trace.traceparent())

    def test_a_handler_runs_in_its_callers_trace(self) -> None:
        ready = multiprocessing.get_context("fork").Event()

        def work() -> None:
            with rpc.Server(self.name, pickles=True) as server:
                ready.set()
                for _ in range(3):
                    answer_one(server, lambda request: pickle.dumps(
                        (current_span(), request.traceparent, bytes(request))))  # fmt: skip

        self.start(work)
        ready.wait(30)
        with rpc.Client(self.name, timeout=5) as client:
            for span, text in [(SPAN_ONE, ONE), (None, None), (SPAN_TWO, TWO)]:
                with self.span(span):
                    reply = client.call(b"value", timeout=30)
                self.assertEqual(pickle.loads(bytes(reply)), (span, text, b"value"))

    def test_calls_of_a_pool_have_that_of_submit(self) -> None:
        with gantry.ProcessPoolExecutor(1, FORK) as pool:
            for span in (SPAN_ONE, None, SPAN_TWO):
                with self.span(span):
                    self.assertEqual(pool.submit(current_span).result(30), span)

    def test_tasks_have_their_own(self) -> None:
        with serving(self, lambda request: told(trace.traceparent())) as client:

            async def call(span: Any) -> bytes:
                with self.span(span):
                    await asyncio.sleep(0)
                    return bytes(await client.call_async(b"value", timeout=30))

            async def both() -> list[bytes]:
                return await asyncio.gather(*(call(it) for it in [SPAN_ONE, SPAN_TWO] * 4))

            self.assertEqual(asyncio.run(both()), [ONE.encode(), TWO.encode()] * 4)

    def test_an_item_goes_on_with_its_putters_trace(self) -> None:
        items, answers = gantry.Queue(), gantry.Queue()
        self.addCleanup(items.close)
        self.addCleanup(answers.close)

        def work() -> None:
            for _ in range(3):
                item = items.get()
                with trace.context(items.traceparent):
                    answers.put((item, current_span(), items.traceparent))

        self.start(work)
        for span, text in [(SPAN_ONE, ONE), (None, None), (SPAN_TWO, TWO)]:
            with self.span(span):
                items.put("item")
            self.assertEqual(answers.get(timeout=30), ("item", span, text))
            self.assertEqual(answers.traceparent, text)  # put within context()


def current_span() -> Any:
    return importlib.import_module("opentelemetry.context").get_value("current-span")


def answer_one(server: rpc.Server, answer: Callable[[rpc.Request], Any]) -> None:
    """One turn of serve()."""
    class Enough(BaseException):
        pass

    def once(request: rpc.Request) -> Any:
        request.reply(answer(request), timeout=30)
        raise Enough

    try:
        server.serve(once)
    except Enough:
        pass


if __name__ == "__main__":
    unittest.main()
