#!/usr/bin/python3
"""Are the probes of docs/mechanisms/probes.md in the library, and do they say what happened?

usage: probes_test.py LIBRARY GANTRY RUN_STAGE PAGE
77: skipped, as the library has none, or a program is not installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import NoReturn

LIBRARY, GANTRY, RUN_STAGE, PAGE = sys.argv[1:]
LONG = 120  # seconds, for what should not take long
COUNT = 5
PIPELINE = """
[stages.source]
command = ["{stage}", "source", "{count}", "{bytes}"]
[stages.relay]
command = ["gdb", "-batch", "-nx", "-x", "{script}", "--args", "{stage}", "relay"]
[stages.sink]
command = ["{stage}", "sink", "/dev/null"]
[channels.numbers]
from = "source"
to = "relay"
[channels.results]
from = "relay"
to = "sink"
"""


def skip(why: str) -> NoReturn:
    print(f"probes_test: skipped: {why}")
    sys.exit(77)


def documented() -> dict[str, int]:
    """How many arguments each has."""
    with open(PAGE) as page:
        rows = re.findall(r"^\| `(\w+)` \| .* \| ([\w, ]+) \|$", page.read(), re.M)
    return {name: len(arguments.split(",")) for name, arguments in rows}


def in_library() -> dict[str, int]:
    notes = subprocess.run(["readelf", "-nW", LIBRARY], check=True, capture_output=True, text=True)
    found: dict[str, int] = {}
    for provider, name, arguments in re.findall(
            r"Provider: (\w+)\s+Name: (\w+)\s+Location: .*\s+Arguments: (.*)", notes.stdout):
        if provider == "gantry":
            assert found.setdefault(name, len(arguments.split())) == len(arguments.split()), name
    return found


def write_script(folder: str) -> str:
    """At each probe gdb says its name and arguments, and goes on."""
    script = f"{folder}/script"
    with open(script, "w") as text:
        text.write("set pagination off\nset breakpoint pending on\nset debuginfod enabled off\n"
                   "break main\nrun\n")
        for name, arguments in documented().items():
            more = "".join(f", (long)$_probe_arg{i}" for i in range(1, arguments))
            text.write(f"break -probe-stap gantry:{name}\ncommands\nsilent\n"
                       f'printf "@{name} %s{" %ld" * (arguments - 1)}\\n", (char *)$_probe_arg0'
                       f"{more}\ncontinue\nend\n")
        text.write("continue\n")
    return script


def seen_in(said: str, probe: str) -> list[list[str]]:
    """The arguments; of links, as in a run, the name without their numbers."""
    found = re.findall(rf"@{probe} (\S+) ?(.*)$", said, re.M)
    return [[re.sub(r"^.*/|\.\d+", "", name), *rest.split()] for name, rest in found]


def relays(folder: str, size: int) -> None:
    """What a stage received and sent on."""
    file = f"{folder}/{size}.toml"
    with open(file, "w") as text:
        text.write(PIPELINE.format(stage=RUN_STAGE, count=COUNT, bytes=size,
                                   script=f"{folder}/script"))
    said = subprocess.run([GANTRY, "run", file], check=True, timeout=LONG, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    numbers = [str(i) for i in range(1, COUNT + 1)]
    assert seen_in(said, "receive") == [["numbers", it, str(size)] for it in numbers], said
    assert seen_in(said, "send") == [["results", it, str(size)] for it in numbers], said
    copied = [it[:2] for it in seen_in(said, "copy")]
    assert copied == ([] if size <= 64 else [["results", str(size)]] * COUNT), said
    assert all(it in seen_in(said, "send") for it in seen_in(said, "publish")), said
    if size > 4096:
        assert len(seen_in(said, "publish")) == COUNT, said
        assert [it[1] for it in seen_in(said, "release")] == numbers, said
    assert len(seen_in(said, "wait_begin")) == len(seen_in(said, "wait_end")) >= COUNT, said


def tells_who_died(folder: str, watched: str) -> None:
    """`put` and `get`: one is killed, the other one's probes tell it."""
    in_gdb = ["gdb", "-batch", "-nx", "-x", f"{folder}/script", "--args"]
    name = f"{watched}s_peer"
    words = {"put": [GANTRY, "put", name, "--lines"], "get": [GANTRY, "get", name]}
    words[watched] = in_gdb + words[watched]
    ends = {end: subprocess.Popen(of, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
            for end, of in words.items()}
    stays = ends.pop(watched)
    _, dies = ends.popitem()
    said = ""

    def read_until(text: str) -> None:
        nonlocal said
        assert stays.stdout
        while text not in said:
            assert (line := stays.stdout.readline()), said
            said += line.decode()

    sender = stays if watched == "put" else dies
    assert sender.stdin
    sender.stdin.write(b"a line\n")
    if watched == "put":
        assert dies.stdout and dies.stdout.readline() == b"a line\n"  # it has joined
    else:
        read_until(f"@receive {name} 1 7")
    dies.kill()
    dies.wait()
    read_until(f"@peer_gone {name} {dies.pid}\n")
    said += stays.communicate(timeout=LONG)[0].decode()
    assert len(seen_in(said, "peer_gone")) == 1, said


def main() -> None:
    found = in_library()
    if not found:
        skip("the library has no probes; tools/setup build, then cmake -DGANTRY_PROBES=ON")
    assert found == documented(), (found, documented())
    if not shutil.which("gdb"):
        skip("gdb is not installed; tools/setup test installs it")
    tried = subprocess.run(["gdb", "-batch", "-nx", "-ex", "run", "/bin/true"], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if "exited normally" not in tried.stdout:
        skip(f"gdb may not trace processes here: {tried.stdout.splitlines()[-1:]}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(GANTRY_DIR=f"{folder}/channels", GANTRY_CALIBRATE="off", LC_ALL="C")
        os.mkdir(f"{folder}/channels", 0o700)
        write_script(folder)
        for size in (40, 2000, 100_000):
            relays(folder, size)
        for end in ("put", "get"):
            tells_who_died(folder, end)
    print("probes_test: passed")


main()
