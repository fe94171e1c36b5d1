"""Images that `gantry keep` keeps: every byte, in one memory, and what is not there."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy
from support import FORK, Case, pattern

import gantry

PROGRAM = os.environ["GANTRY_PROGRAM"]


@contextlib.contextmanager
def kept(folder: str, name: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [PROGRAM, "keep", f"{folder}/{name}.gimg", "--quiet"]
    with subprocess.Popen(command) as keeper:
        try:
            yield keeper
        finally:
            keeper.send_signal(signal.SIGINT)
            keeper.wait()


class Images(Case):
    def setUp(self) -> None:
        super().setUp()
        scratch = tempfile.TemporaryDirectory(prefix="gantry-images-")
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        self.q = pattern(600 * 1000, "float32").reshape(600, 1000)
        self.bias = pattern(77, "uint8", 2)
        file = Path(self.folder) / "model"
        file.write_bytes(self.q.tobytes() + self.bias.tobytes())
        described = ["--tensor", "layer.0.q=f32[600,1000]", "--tensor", "bias=u8[77]"]
        subprocess.run(
            [PROGRAM, "pack", str(file), f"{file}.gimg", *described], check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def test_every_byte_is_there(self) -> None:
        with kept(self.folder, "model"):
            model = gantry.image("model")
            self.assertEqual(list(model), ["layer.0.q", "bias"])
            self.assertEqual(len(model), 2)
            self.assertIn("bias", model)
            q = model["layer.0.q"].array
            self.assertEqual(q.dtype, numpy.float32)
            self.assertTrue(numpy.array_equal(q, self.q))
            self.assertFalse(q.flags.writeable)
            self.assertEqual(bytes(model["bias"].data), self.bias.tobytes())
            self.assertTrue(numpy.array_equal(numpy.from_dlpack(model["bias"]), self.bias))
            with self.assertRaisesRegex(KeyError, "no tensor 'layer.1.q'"):
                model["layer.1.q"]
            del model
        self.assertTrue(numpy.array_equal(q, self.q))  # without its keeper

    def test_who_waits_gets_it_when_it_comes(self) -> None:
        found: list[bool] = []

        def wait() -> None:
            found.append(numpy.array_equal(gantry.image("model")["bias"].array, self.bias))

        waiter = threading.Thread(target=wait)
        waiter.start()
        with kept(self.folder, "model"):
            waiter.join()
        self.assertEqual(found, [True])

    def test_a_process_of_its_own_gets_the_same(self) -> None:
        def child() -> None:
            model = gantry.image("model", timeout=60)
            os._exit(0 if numpy.array_equal(model["layer.0.q"].array, self.q) else 1)

        with kept(self.folder, "model"):
            process = FORK.Process(target=child)
            process.start()
            process.join()
            self.assertEqual(process.exitcode, 0)

    def test_what_is_not_there_ends_by_the_callers_clock(self) -> None:
        for timeout in (0, 0.25):
            begun = time.monotonic()
            with self.assertRaises(gantry.TimedOut):
                gantry.image("model", timeout=timeout)
            self.assertGreaterEqual(time.monotonic() - begun, timeout)
        with self.assertRaises(gantry.InvalidArgument):
            gantry.image("mod/el", timeout=0)

    def test_a_keeper_that_is_stopped_holds_nobody_longer(self) -> None:
        with kept(self.folder, "model") as keeper:
            gantry.image("model")  # it is there
            keeper.send_signal(signal.SIGSTOP)
            try:
                begun = time.monotonic()
                with self.assertRaises(gantry.TimedOut):
                    gantry.image("model", timeout=2)
                self.assertLess(time.monotonic() - begun, 3.9)
            finally:
                keeper.send_signal(signal.SIGCONT)

    def test_a_signals_handler_ends_the_waiting(self) -> None:
        def stop(number: int, frame: object) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, stop)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with self.assertRaises(KeyboardInterrupt):
            gantry.image("model")

    def test_a_channel_of_another_kind_is_refused(self) -> None:
        with gantry.Producer("other", history=1) as producer:
            producer.send(b"x" * 5000)
            with self.assertRaisesRegex(gantry.InvalidArgument, "keeps no image"):
                gantry.image("other", timeout=60)
