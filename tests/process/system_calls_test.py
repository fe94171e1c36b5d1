#!/usr/bin/python3
"""Does the library make no other system calls than docs/seccomp.json allows?

usage: system_calls_test.py PROFILE GANTRY TEST_PROGRAM:FILTER...

Runs channels, a pipeline and some suites under strace(1) and names each call that the profile lacks.
What a program of yours calls besides is its own. 77: skipped, strace(1) may not trace here.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

NEWER = {"syscall_0x1c3": "cachestat"}  # than Debian 12's strace
LINE = re.compile(r"^(?:\d+ +)?(\w+)\(")


class Traced:
    """Commands under strace, and who made which call."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.count = folder, 0
        self.callers: dict[str, set[str]] = collections.defaultdict(set)
        self.environment = {**os.environ, "GANTRY_DIR": str(folder), "GANTRY_CALIBRATE": "off"}

    def start(self, *command: str, stdin: int = subprocess.DEVNULL) -> tuple[str, subprocess.Popen]:
        log = self.folder / f"strace-{self.count}"
        self.count += 1
        trace = ["strace", "-f", "-qq", "-e", "signal=none", "-o", str(log), *command]
        with open(f"{log}.out", "wb") as said:
            process = subprocess.Popen(
                trace, stdin=stdin, stdout=said, stderr=subprocess.STDOUT, env=self.environment
            )
        return str(log), process

    def end(self, log: str, process: subprocess.Popen) -> bytes:
        try:
            process.wait(120)
        finally:
            process.kill()
        said = pathlib.Path(f"{log}.out").read_bytes()
        if process.returncode != 0:
            sys.exit(f"system_calls_test: {process.args} ended with {process.returncode}: {said!r}")
        for line in open(log, errors="replace"):
            if found := LINE.match(line):
                call = NEWER.get(found[1], found[1])
                self.callers[call].add(" ".join(map(os.path.basename, process.args[7:10])))
        return said

    def run(self, *command: str) -> bytes:
        return self.end(*self.start(*command))


def main() -> int:
    profile, gantry, *suites = sys.argv[1:]
    lists = json.load(open(profile))["syscalls"]
    allowed = {name for one in lists if one["action"] == "SCMP_ACT_ALLOW" for name in one["names"]}
    with tempfile.TemporaryDirectory(prefix="gantry-calls-") as name:
        traced = Traced(pathlib.Path(name))
        probe = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, text=True)
        if probe.returncode != 0:
            print(f"system_calls_test: skipped: strace may not trace here: {probe.stderr.strip()}")
            return 77
        get = traced.start(gantry, "get", "zeros")
        with open("/proc/self/exe", "rb") as data:
            traced.end(*traced.start(gantry, "put", "zeros", stdin=data.fileno()))
            sent = os.fstat(data.fileno()).st_size
        if len(traced.end(*get)) != sent:
            sys.exit("system_calls_test: what was got is not what was put")
        pipeline = traced.folder / "pipeline.toml"
        pipeline.write_text(
            f'[stages.a]\nshell = "echo words | {gantry} put words"\n'
            f'[stages.b]\nshell = "{gantry} get words >/dev/null"\n'
            '[channels.words]\nfrom = "a"\nto = "b"\n'
        )
        traced.run(gantry, "run", str(pipeline))
        traced.run(gantry, "ls")
        for suite in suites:
            program, tests = suite.split(":", 1)
            traced.run(program, f"--gtest_filter={tests}")
        callers = traced.callers
    missing = sorted(set(callers) - allowed)
    for call in missing:
        print(f"system_calls_test: {call}: not in {profile}; made by {sorted(callers[call])[0]}")
    print(f"system_calls_test: {len(callers)} calls, {len(missing)} of them not in the profile")
    return 1 if missing else 0


sys.exit(main())
