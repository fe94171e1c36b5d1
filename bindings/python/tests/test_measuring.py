"""`gantry bench python` as a person sees it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import unittest

WORDS = [os.environ["GANTRY_PROGRAM"], "bench", "python", "--rounds", "1", "--sizes", "64",
         "--subjects", "gantry/send", "--json"]  # fmt: skip


def bench(*more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WORDS, *more], capture_output=True, text=True, check=False)


def on_a_terminal(*more: str) -> tuple[str, str]:
    """Standard output, and what the terminal that standard error is was told."""
    master, slave = pty.openpty()
    done = subprocess.run([*WORDS, *more], stdout=subprocess.PIPE, stderr=slave, check=True,
                          text=True, env={**os.environ, "TERM": "xterm", "NO_COLOR": ""})  # fmt: skip
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


if __name__ == "__main__":
    unittest.main()
