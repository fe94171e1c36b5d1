"""Signals end waits, and disturb nobody; close() ends the waits of other threads."""

import asyncio
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Callable
from functools import partial
from unittest import mock

import numpy
from support import Case

import gantry
from gantry import receiving, rpc


class Waits(Case):
    def waits(self) -> dict[str, Callable[[], object]]:
        """Every wait that does not end by itself."""
        producer, consumer = self.pair(slots=1)
        self.kept = producer.send(bytes(100_000)), consumer.receive(5)
        server = rpc.Server(self.name + "-server")
        client = rpc.Client(self.name + "-server", timeout=5)
        inbox = gantry.Inbox(self.name + "-inbox")
        alone = gantry.Producer(self.name + "-alone", consumers=2)
        for end in (server, client, inbox):
            self.addCleanup(end.close)
        self.addCleanup(alone.drop)
        self.addCleanup(lambda: delattr(self, "kept"))
        return {
            "receive": consumer.receive,
            "send": lambda: producer.send(bytes(100_000)),
            "wait_for_consumers": lambda: alone.wait_for_consumers(2),
            "Consumer()": lambda: gantry.Consumer(self.name + "-nobody"),
            "connect()": lambda: gantry.Producer.connect(self.name + "-nobody"),
            "Client()": lambda: rpc.Client(self.name + "-nobody"),
            "inbox": inbox.receive,
            "call": lambda: client.call(b"?"),
            "server": lambda: (server.receive(5), server.receive())[1],
            "close": producer.close,
        }

    def test_who_waits_for_a_name_that_nobody_has_says_so(self) -> None:
        self.pair()
        command = "import sys, gantry; gantry.Consumer(sys.argv[1], timeout=2.2)"
        child = subprocess.run(
            [sys.executable, "-c", command, "misspelt"], capture_output=True, text=True, check=False
        )
        said = child.stderr.splitlines()[0]
        self.assertTrue(said.startswith("gantry: channel 'misspelt' in "), said)
        self.assertIn(": waiting for its producer; there ", said)
        self.assertIn(self.name, said)
        self.assertIn("TimedOut", child.stderr)

    def silent_bridge(self) -> str:
        """Where one should be: it takes calls, and never answers."""
        token = os.path.join(os.environ["GANTRY_DIR"], "token")
        with open(token, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(b"0123456789abcdef" * 4)
        self.addCleanup(os.remove, token)
        known = mock.patch.dict(os.environ, {"GANTRY_TOKEN_FILE": token})
        known.start()
        self.addCleanup(known.stop)
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        return f"127.0.0.1:{listener.getsockname()[1]}"

    def test_a_producer_of_another_hosts_channel_ends_by_its_timeout(self) -> None:
        name = f"frames@{self.silent_bridge()}"
        for timeout in (0, 0.1):
            began = time.monotonic()
            with self.assertRaisesRegex(gantry.TimedOut, f"the bridge did not take .* {timeout} s"):
                gantry.Producer(name, timeout=timeout)
            self.assertLess(time.monotonic() - began, 4)  # the library's own limit is 5 s
        with self.assertRaises(gantry.InvalidArgument):
            gantry.Producer(name, timeout=-1)

    @unittest.skipUnless(os.environ.get("GANTRY_PROGRAM"), "GANTRY_PROGRAM is not set")
    def test_who_waits_for_a_name_of_another_host_says_so(self) -> None:
        self.silent_bridge()  # its token is known
        bridge = subprocess.Popen(
            [os.environ["GANTRY_PROGRAM"], "bridge", "--listen", "127.0.0.1:0",
             "--token-file", os.environ["GANTRY_TOKEN_FILE"]],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert bridge.stderr is not None
        self.addCleanup(lambda: (bridge.kill(), bridge.communicate()))
        listening = re.search(r"listening on (\S+);", bridge.stderr.readline())
        assert listening is not None
        name = f"misspelt@{listening[1]}"
        command = "import sys, gantry; gantry.Consumer(sys.argv[1], timeout=3)"
        child = subprocess.run(
            [sys.executable, "-c", command, name], capture_output=True, text=True, check=False
        )
        self.assertEqual(
            child.stderr.splitlines()[0],
            f"gantry: channel '{name}': waiting for its producer; gantry ls @{listening[1]} lists"
            " what there is",
        )
        self.assertNotIn("waiting for", "".join(child.stderr.splitlines()[1:]))

    def test_timed_out_says_what_is_held(self) -> None:
        producer, consumer = self.pair(slots=3)
        inbox = gantry.Inbox(self.name + "-inbox")
        sender = gantry.Producer.connect(self.name + "-inbox", timeout=5)
        self.addCleanup(inbox.close)
        self.addCleanup(sender.drop)
        for end, out, count in ((consumer, producer, 3), (inbox, sender, 8)):
            waits: list[Callable[[], object]] = [
                partial(end.receive, 0), lambda: asyncio.run(end.receive_async(0)),
            ]  # fmt: skip
            if end is consumer:  # an inbox does not have it
                waits.append(partial(consumer.receive_into, bytearray(9), 0))
            for wait in waits:
                with self.assertRaises(gantry.TimedOut) as caught:
                    wait()
                self.assertNotIn("holds", str(caught.exception))
            held = []
            for _ in range(count):
                out.send(bytes(100_000), timeout=5)
                held.append(end.receive(5).data)
            for wait in waits:
                with self.assertRaises(gantry.TimedOut) as caught:
                    wait()
                self.assertIn(f"this reader holds {count}", caught.exception.message)
                self.assertIn("let go of messages", caught.exception.hint)
            held.clear()

    def test_a_server_that_nobody_calls_is_called_a_server(self) -> None:
        with rpc.Server(self.name) as server, self.assertRaises(gantry.TimedOut) as caught:
            server.receive(0)
        self.assertEqual(caught.exception.message, f"server '{self.name}': no message in time")

    def test_a_long_wait_says_what_is_held(self) -> None:
        class LetsGo(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                said.append(record.getMessage())
                held.clear()

        handler = LetsGo()
        logging.getLogger("gantry").addHandler(handler)
        self.addCleanup(logging.getLogger("gantry").removeHandler, handler)
        said: list[str] = []
        held: list[memoryview] = []
        self.addCleanup(held.clear)
        producer, consumer = self.pair(slots=3)
        inbox = gantry.Inbox(self.name + "-inbox")
        self.addCleanup(inbox.close)

        def fill() -> None:
            for _ in range(3):
                producer.send(bytes(100_000), timeout=5)
                held.append(consumer.receive(5).data)

        waits: list[Callable[[], object]] = [
            lambda: consumer.receive(), lambda: asyncio.run(consumer.receive_async()),
            lambda: consumer.receive_into(bytearray(100_000)),
        ]  # fmt: skip
        with mock.patch.object(receiving, "_PATIENCE", 0.05):
            for wait in waits:
                consumer._has_said = False
                said.clear()
                fill()
                thread = threading.Thread(target=producer.send, args=(bytes(100_000),))
                thread.start()  # sends when the handler has let go
                wait()
                thread.join(20)
                self.assertEqual(len(said), 1, said)
                self.assertIn(f"gantry: channel '{self.name}': no message in time: this reader"
                              " holds 3 of the 3 that may be out; let go of", said[0])  # fmt: skip
        consumer._has_said = False
        said.clear()
        for end in (consumer, inbox):  # an idle one has nothing to say
            end._keep_waiting(gantry.TimedOut("channel 'x': no message in time"), None)
        self.assertEqual(said, [])

    def interrupt(self, wait: Callable[[], object], delay: float = 0.05) -> None:
        timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            wait()
            time.sleep(1)
        self.assertLess(time.monotonic() - began, delay + 5)
        timer.join()

    def test_ctrl_c_ends_every_wait(self) -> None:
        waits = self.waits()
        for name, wait in waits.items():
            with self.subTest(name):
                self.interrupt(wait)

    def test_no_signal_is_lost_however_early(self) -> None:
        _, consumer = self.pair()
        for turn in range(200):
            timer = threading.Timer(turn * 2e-6, os.kill, (os.getpid(), signal.SIGINT))
            with self.assertRaises(KeyboardInterrupt):
                timer.start()
                consumer.receive(20)
            timer.join()

    def test_a_handler_that_returns_lets_the_wait_go_on(self) -> None:
        producer, consumer = self.pair()
        seen: list[int] = []
        before = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        began = time.monotonic()
        with self.assertRaises(TimeoutError):
            consumer.receive(0.3)
        self.assertGreaterEqual(time.monotonic() - began, 0.3)
        timer = threading.Timer(0.1, producer.send, (b"x",))
        timer.start()
        self.assertEqual(bytes(consumer.receive(5)), b"x")
        timer.join()
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.assertGreater(len(seen), 5)

    def test_a_handler_may_use_the_same_end(self) -> None:
        producer, consumer = self.pair()
        before = signal.signal(signal.SIGUSR1, lambda *_: producer.send(b"from the handler"))
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        self.assertEqual(bytes(consumer.receive(5)), b"from the handler")
        timer.join()

    def test_the_wakeup_descriptor_stays_the_users(self) -> None:
        _, consumer = self.pair()
        reading, writing = os.pipe2(os.O_NONBLOCK)
        signal.set_wakeup_fd(writing)
        self.interrupt(lambda: consumer.receive(5))
        self.assertEqual(os.read(reading, 10), bytes([signal.SIGINT]))
        self.assertEqual(signal.set_wakeup_fd(-1), writing)
        os.close(reading)
        os.close(writing)

    def test_waits_of_other_threads_go_on(self) -> None:
        producer, consumer = self.pair()
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.append(bytes(consumer.receive(10))))
        thread.start()
        self.interrupt(lambda: time.sleep(5))
        self.assertTrue(thread.is_alive())
        producer.send(b"later")
        thread.join()
        self.assertEqual(got, [b"later"])

    def test_close_ends_the_waits_of_other_threads(self) -> None:
        producer, consumer = self.pair()
        errors: list[BaseException] = []

        def wait() -> None:
            try:
                consumer.receive()
            except gantry.Error as error:
                errors.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.05)
        consumer.close()
        thread.join(5)
        self.assertFalse(thread.is_alive())
        self.assertIsInstance(errors[0], gantry.InvalidArgument)

    def test_threads_take_turns_at_one_end(self) -> None:
        producer, consumer = self.pair()
        count, threads = 300, 4

        def send(number: int) -> None:
            for turn in range(count):
                producer.send(numpy.full(5000, number * count + turn))

        senders = [threading.Thread(target=send, args=(number,)) for number in range(threads)]
        for sender in senders:
            sender.start()
        seen = set()
        for _ in range(count * threads):
            array = consumer.receive(20).array
            self.assertTrue((array == array[0]).all())
            seen.add(int(array[0]))
        self.assertEqual(len(seen), count * threads)
        for sender in senders:
            sender.join()

    def test_other_threads_run_during_waits_and_copies(self) -> None:
        producer, consumer = self.pair()
        done = threading.Event()
        turns = 0

        def count() -> None:
            nonlocal turns
            while not done.is_set():
                turns += 1
                time.sleep(0)

        thread = threading.Thread(target=count)
        thread.start()
        with self.assertRaises(gantry.TimedOut):
            consumer.receive(0.2)
        done.set()
        thread.join()
        self.assertGreater(turns, 100)

    def test_asyncio_keeps_its_signals(self) -> None:
        producer, consumer = self.pair()

        async def main() -> bytes:
            loop = asyncio.get_running_loop()
            told: asyncio.Future[None] = loop.create_future()
            loop.add_signal_handler(signal.SIGUSR1, lambda: told.set_result(None))
            timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            with self.assertRaises(gantry.TimedOut):
                consumer.receive(0.2)  # blocks the loop, which must hear of the signal even so
            await asyncio.wait_for(told, 5)
            loop.remove_signal_handler(signal.SIGUSR1)
            producer.send(b"done")
            return bytes(await consumer.receive_async(5))

        self.assertEqual(asyncio.run(main()), b"done")
