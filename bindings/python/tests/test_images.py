"""Images that `gantry keep` keeps: every byte, in one memory, and what is not there."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy
from support import FORK, Case, pattern, stopped

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


def packed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, "pack", *words], capture_output=True, text=True, check=False
    )


# Types of NumPy that are types of images; of its others pack refuses a file.
TYPES = ("?", "B", "b", "H", "h", "e", "I", "i", "f", "L", "l", "d", "F")


def headers() -> Iterator[str]:
    """What may stand in a file of NumPy's: by the types' names, and by how it may be written."""
    names = {name for name in numpy.sctypeDict if isinstance(name, str)}
    names |= set(numpy.typecodes["All"]) | {"bool", "int", "float", "complex", "u", "<"}
    for name in sorted(names):
        for order in ("", "<", ">", "=", "|"):
            yield f"{{'descr': '{order}{name}', 'fortran_order': False, 'shape': (3, 2), }}"
    yield '{"shape": (3,2),"fortran_order":False,"descr":"<f4"}'
    yield "{u'descr': u'<f4', u'shape': (3L, 2L), u'fortran_order': False}"
    yield "  { 'descr' : '<f4' , 'fortran_order'\t: False,\n'shape' : ( 3 , 2 , ) }  "
    yield "{'descr': '<f4', 'descr': '<i4', 'fortran_order': False, 'shape': (3, 2)}"
    for shape in ("(6,)", "()", "(6, 1)", "(1, 6, 1)", "(0, 3, 2)", "(6)", "[6]", "(3, 2)", "(3 2)"):
        for fortran in ("True", "False", "1"):
            yield f"{{'descr': '<f4', 'fortran_order': {fortran}, 'shape': {shape}}}"


class Packs(Case):
    """What `gantry pack` takes is what numpy.load() reads, and comes back as that."""

    def setUp(self) -> None:
        super().setUp()
        scratch = tempfile.TemporaryDirectory(prefix="gantry-packs-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def load(self, file: Path) -> numpy.ndarray[Any, Any] | None:
        """Nothing: NumPy does not read it, or it is of a type, or in an order, that no image has."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python 2's headers
            try:
                array: numpy.ndarray[Any, Any] = numpy.load(file)
            except (ValueError, SyntaxError, TypeError):
                return None
        ours = array.dtype.isnative and array.dtype.str[1:] in {
            numpy.dtype(one).str[1:] for one in TYPES
        }
        return array if ours and array.flags.c_contiguous else None

    def test_every_file_that_numpy_reads_is_taken(self) -> None:
        arrays: dict[str, numpy.ndarray[Any, Any]] = {}
        refused = []
        for number, header in enumerate(headers()):
            for version in (b"\x01\x00", b"\x03\x00"):
                text = header.encode() + b"\n"
                size = len(text).to_bytes(2 if version == b"\x01\x00" else 4, "little")
                file = self.folder / f"{number}-{version[0]}.npy"
                start = b"\x93NUMPY" + version + size + text
                file.write_bytes(start + bytes(range(8 * 6)))
                array = self.load(file)
                if array is None:
                    refused.append(file)
                    continue
                file.write_bytes(start + array.tobytes())  # what follows it NumPy ignores
                arrays[file.stem] = array
        self.assertGreater(len(arrays), 200)
        taken = [str(self.folder / f"{name}.npy") for name in arrays]
        image = str(self.folder / "all.gimg")
        ended = packed(*taken, image)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        out = self.folder / "out"
        subprocess.run([PROGRAM, "image", "extract", image, str(out)], check=True,
                       capture_output=True)  # fmt: skip
        listed = json.loads(
            subprocess.run([PROGRAM, "image", "ls", image, "--json"], check=True,
                           capture_output=True).stdout
        )  # fmt: skip
        for tensor in listed["tensors"]:
            array = arrays[tensor["name"]]
            self.assertEqual(tensor["shape"], list(array.shape), tensor)
            self.assertEqual((out / tensor["name"]).read_bytes(), array.tobytes(), tensor)
        for file in refused[:: len(refused) // 30]:
            ended = packed(str(file), str(self.folder / "refused.gimg"))
            self.assertEqual(ended.returncode, 1, file.read_bytes())
            self.assertRegex(ended.stderr, rf"^gantry: {file}: .*; .*\n$")


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

    def test_types_that_numpy_has_not_come_by_ml_dtypes(self) -> None:
        file = f"{self.folder}/bf16"
        Path(file).write_bytes(self.q.tobytes())
        described = ["--tensor", "none=bf16[0,3]", "--tensor", "q=bf16[600,1000,2]"]
        self.assertEqual(packed(file, f"{file}.gimg", *described).returncode, 0)
        standin = types.ModuleType("ml_dtypes")
        standin.bfloat16 = numpy.dtype("V2")  # type: ignore[attr-defined]
        with kept(self.folder, "bf16"):
            model = gantry.image("bf16")
            with mock.patch.dict(sys.modules, {"ml_dtypes": standin}):
                q = model["q"].array
                self.assertEqual((q.dtype, q.shape), (numpy.dtype("V2"), (600, 1000, 2)))
                self.assertEqual(q.tobytes(), self.q.tobytes())
                self.assertFalse(q.flags.writeable)
                self.assertEqual(model["none"].array.shape, (0, 3))
            with (
                mock.patch.dict(sys.modules, {"ml_dtypes": None}),
                self.assertRaisesRegex(gantry.InvalidArgument, "has no bfloat16, and ml_dtypes"),
            ):
                model["q"].array  # noqa: B018

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

    def test_a_stage_hears_at_once_of_an_image_that_its_run_does_not_keep(self) -> None:
        own = {"GANTRY_STAGE_ENDS": "[]", "GANTRY_STAGE_IMAGES": "weight"}
        with mock.patch.dict(os.environ, own):
            with self.assertRaisesRegex(gantry.NotFound, "'weights'.*images here: weight$"):
                gantry.image("weights", timeout=60)

    def test_what_is_damaged_is_said_to_who_wants_it(self) -> None:
        image = Path(f"{self.folder}/model.gimg")
        damaged = bytearray(image.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        image.write_bytes(damaged)
        with kept(self.folder, "model"):
            for timeout in (None, 60):
                with self.assertRaisesRegex(gantry.InvalidArgument, "keeper cannot load.*chunk"):
                    gantry.image("model", timeout=timeout)

    def test_a_keeper_that_is_stopped_holds_nobody_longer(self) -> None:
        with kept(self.folder, "model") as keeper:
            gantry.image("model")  # it is there
            with stopped(keeper.pid):
                begun = time.monotonic()
                with self.assertRaises(gantry.TimedOut):
                    gantry.image("model", timeout=2)
                self.assertLess(time.monotonic() - begun, 3.9)

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
