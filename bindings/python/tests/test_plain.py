"""Without NumPy: nothing imports it unless arrays are asked for. For any Python from 3.11 on."""

import array
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

if "GANTRY_DIR" not in os.environ:
    os.environ["GANTRY_DIR"] = tempfile.mkdtemp()
    unittest.addModuleCleanup(shutil.rmtree, os.environ["GANTRY_DIR"])

import gantry  # noqa: E402


class Plain(unittest.TestCase):
    def test_everything_but_ndarrays(self) -> None:
        before = "numpy" in sys.modules
        with (
            gantry.Producer("plain", pickles=True, slots=2) as producer,
            gantry.Consumer("plain", pickles=True, timeout=5) as consumer,
        ):
            producer.wait_for_consumers(timeout=5)
            for turn in range(200):
                numbers = array.array("d", range(turn * 50))
                producer.send(numbers)
                message = consumer.receive(5)
                self.assertEqual(bytes(message), numbers.tobytes())
                tensor = message._core.segment(0, False)
                with memoryview(tensor) as view:  # type: ignore[arg-type]
                    self.assertEqual((view.format, view.shape), ("d", (turn * 50,)))
                    self.assertEqual(view.tolist(), numbers.tolist())
                private = memoryview(message._core.view(0))  # type: ignore[arg-type]
                if turn:
                    private[0] = 9.0
                    self.assertEqual((private[0], message.data[0]), (9.0, 0))
                private.release()
                del message, tensor, view, private
            producer.send({"a": [1, "b"], "c": bytearray(10_000)})
            self.assertEqual(consumer.receive(5).object(), {"a": [1, "b"], "c": bytearray(10_000)})
            timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                consumer.receive(10)
            timer.join()
            with self.assertRaises(gantry.InvalidArgument):
                gantry.Producer("plain2").send("text")
            self.assertEqual(len(gantry.runtime.shared().channels()), 1)
            producer.drop()
        self.assertEqual("numpy" in sys.modules, before)


class WithoutExtension(unittest.TestCase):
    """What somebody hears who imports the package where its extension was not made."""

    def said(self, *, in_build: bool) -> tuple[str, Path]:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tree = Path(folder.name).resolve()
        package = Path(gantry.__file__).parent
        shutil.copytree(package, tree / "python/gantry", ignore=shutil.ignore_patterns("_core*so"))
        if in_build:
            (tree / "CMakeCache.txt").touch()
        ended = subprocess.run(
            [sys.executable, "-c", "import gantry"], capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(tree / "python")},
        )  # fmt: skip
        self.assertEqual(ended.returncode, 1)
        return ended.stderr.rstrip().splitlines()[-1], tree

    def test_a_build_tree_names_the_command_that_makes_it(self) -> None:
        said, tree = self.said(in_build=True)
        self.assertIn("this build has no Python extension; ", said)
        self.assertTrue(said.endswith(f"cmake --build {tree} --target gantry_python"), said)

    def test_a_source_tree_names_the_build(self) -> None:
        self.assertIn("make build", self.said(in_build=False)[0])


if __name__ == "__main__":
    unittest.main()
