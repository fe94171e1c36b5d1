"""`gantry bench python` as a person sees it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import tempfile
import unittest

WORDS = [os.environ["GANTRY_PROGRAM"], "bench", "python", "--rounds", "1", "--sizes", "64",
         "--subjects", "gantry/send", "--json"]  # fmt: skip


def bench(*more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WORDS, *more], capture_output=True, text=True, check=False)


def on_a_terminal(*more: str) -> tuple[str, str]:
    """Standard output, and what the terminal that standard error is was told."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": ""}
    done = subprocess.run([*WORDS, *more], stdout=subprocess.PIPE, stderr=slave, check=True,
                          text=True, env=environment)  # fmt: skip
    os.write(slave, b"<END>")
    told = b""
    while not told.endswith(b"<END>"):
        told += os.read(master, 4096)
    os.close(master)
    os.close(slave)
    return done.stdout, told.decode().removesuffix("<END>")


class Progress(unittest.TestCase):
    def test_a_bar_that_is_taken_back(self) -> None:
        output, told = on_a_terminal()
        self.assertEqual(json.loads(output)["bench"], "python")
        self.assertIn("bench python [", told)
        self.assertIn("1/4 latency, 64 B", told)
        self.assertIn("4/4 asyncio", told)
        self.assertTrue(told.endswith("\r\x1b[K"), told)
        self.assertNotIn("\n", told)

    def test_lines_in_a_pipe(self) -> None:
        done = bench("--cases", "latency")
        self.assertEqual(done.stderr, "bench python: latency, 64 B (1/1)\n")


class Plot(unittest.TestCase):
    def picture(self, *more: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "picture.svg")
            done = bench("--plot", path, *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["bench"], "python")
            with open(path) as file:
                return file.read()

    def test_sizes_are_lines(self) -> None:
        svg = self.picture("--cases", "latency", "--sizes", "64,4KiB")
        self.assertIn("gantry bench python: throughput by the size of a message", svg)
        self.assertIn(">gantry/send<", svg)
        self.assertIn(">4 KiB<", svg)

    def test_other_cases_are_dots(self) -> None:
        svg = self.picture("--cases", "objects", "--sizes", "64,4KiB")
        self.assertIn(">objects, 64 B<", svg)
        self.assertIn(">objects, 4 KiB<", svg)

    def test_what_cannot_be_written_is_told_before_anything_is_measured(self) -> None:
        hint = "; name a file that can be written"
        for path, why in (("/no/such/folder.svg", "No such file or directory" + hint),
                          ("/proc/picture.svg", "No such file or directory" + hint),
                          ("picture.png", "'.png' is no ending of an SVG file; only SVG is"
                           " drawn: name it .svg"), ("/", "Is a directory" + hint)):  # fmt: skip
            done = bench("--plot", path)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr, f"gantry: bench python: --plot {path}: {why}\n")


if __name__ == "__main__":
    unittest.main()
