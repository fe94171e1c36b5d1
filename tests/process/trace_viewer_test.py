#!/usr/bin/python3
"""The trace of a run, as the viewer of chrome://tracing reads it: nothing to object to, and every
message's way complete. Debian has that viewer with Go's sources, as `go tool trace` shows it.

usage: trace_viewer_test.py GANTRY PIPELINE.toml [WORD OF gantry run...]
       trace_viewer_test.py    only says whether it could
77: skipped, a program that it needs is not installed.
"""

from __future__ import annotations

import copy
import glob
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from browser import open_browser, skip

VIEWERS = glob.glob("/usr/share/go-*/src/**/static/trace_viewer_full.html", recursive=True)

# Slices and arrows as the viewer's model has them; times in whole nanoseconds.
READ = """
const model = new tr.Model(), options = new tr.importer.ImportOptions();
options.shiftWorldToZero = false;
new tr.importer.Import(model, options).importTraces([arguments[0]]);
const ns = (ms) => Math.round(ms * 1e6), slices = new Map(), tracks = [];
for (const thread of model.getAllThreads()) {
  tracks.push({pid: thread.parent.pid, name: thread.name, process: thread.parent.name});
  for (const slice of thread.sliceGroup.slices)
    slices.set(slice, {number: slices.size, track: tracks.length - 1, name: slice.title,
                       args: slice.args, begin: ns(slice.start), end: ns(slice.end)});
}
const arrows = model.flowEvents.map((it) => ({
  name: it.title, from: slices.get(it.startSlice)?.number, to: slices.get(it.endSlice)?.number}));
return {warnings: model.importWarnings.map((it) => it.message), tracks, arrows,
        slices: [...slices.values()]};
"""


class Viewer:
    def __init__(self, folder: str) -> None:
        page, viewer = f"{folder}/viewer.html", sorted(VIEWERS)[-1]
        with open(viewer) as text, open(page, "w") as both:  # the viewer is older than the browser
            both.write(f"<script src='file://{os.path.dirname(viewer)}/webcomponents.min.js'>"
                       f"</script>{text.read()}")
        self.browser = open_browser(f"{folder}/browser")
        self.browser.get(f"file://{page}")

    def read(self, trace: Any) -> Any:
        return self.browser.execute_script(READ, json.dumps(trace))


def run(folder: str) -> tuple[Any, Any]:
    """The trace of a run and its report."""
    file = f"{folder}/trace.json"
    os.mkdir(f"{folder}/channels", 0o700)
    env = dict(os.environ, GANTRY_DIR=f"{folder}/channels", GANTRY_CALIBRATE="off")
    words = [sys.argv[1], "run", *sys.argv[2:], "--trace", file, "--json", "--quiet"]
    report = json.loads(subprocess.run(words, env=env, check=True, stdout=subprocess.PIPE).stdout)
    with open(file) as text:
        return json.load(text), report


def check(seen: Any, report: Any) -> None:
    assert not seen["warnings"], seen["warnings"][:3]
    sends = [it for it in seen["slices"] if it["name"] == "send"]
    arrivals = [it for it in seen["slices"] if it["name"] == "receive"]
    has_the_reports_counts(seen["tracks"], sends, arrivals, report)
    has_an_arrow_to_each_arrival(seen, sends, arrivals)
    has_an_arrow_to_each_consequence(seen, sends, arrivals)
    nests(seen)


def has_the_reports_counts(tracks: Any, sends: Any, arrivals: Any, report: Any) -> None:
    def counted(slices: Any, end: str) -> Counter[tuple[str, str]]:
        of = [tracks[it["track"]] for it in slices]
        assert all(it["name"].endswith(f" ({end})") for it in of), of
        return Counter((it["process"], it["name"].split(".")[0]) for it in of)

    channels = report["channels"]
    assert channels and all(it["messages"] for it in channels), channels
    wanted = {(it["from"], it["name"]): it["published_messages"] for it in channels}
    assert counted(sends, "producer") == wanted, (counted(sends, "producer"), wanted)
    wanted = {(it["to"], it["name"]): it["messages"] for it in channels}
    assert counted(arrivals, "consumer") == wanted, (counted(arrivals, "consumer"), wanted)


def arrows_of(seen: Any, name: str) -> Counter[tuple[Any, Any]]:
    of = [it for it in seen["arrows"] if it["name"] == name]
    return Counter((it.get("from"), it.get("to")) for it in of)


def has_an_arrow_to_each_arrival(seen: Any, sends: Any, arrivals: Any) -> None:
    sent = {it["args"]["message"]: it["number"] for it in sends}
    assert len(sent) == len(sends), "a message is sent twice"
    wanted = Counter((sent.get(it["args"]["message"]), it["number"]) for it in arrivals)
    assert {it[0] for it in wanted} == set(sent.values()), "a message never arrives"
    assert arrows_of(seen, "message") == wanted, "arrows differ from messages"


def has_an_arrow_to_each_consequence(seen: Any, sends: Any, arrivals: Any) -> None:
    def pid(slice_of: Any) -> int:
        return int(seen["tracks"][slice_of["track"]]["pid"])

    arrived = {(it["args"]["message"], pid(it)): it["number"] for it in arrivals}
    wanted = Counter((arrived.get((it["args"]["because_of"], pid(it))), it["number"])
                     for it in sends if "because_of" in it["args"])
    assert arrows_of(seen, "because of") == wanted, "arrows differ from causes"


def nests(seen: Any) -> None:
    """What crosses another slice of its track Perfetto leaves out."""
    of: dict[int, Any] = defaultdict(list)
    for one in seen["slices"]:
        of[one["track"]].append((one["begin"], -one["end"], one["name"]))
    for slices in of.values():
        outer: list[int] = []
        for begin, end, name in sorted(slices):
            while outer and outer[-1] <= begin:
                outer.pop()
            assert not outer or -end <= outer[-1], (name, begin, -end, outer)
            outer.append(-end)


def objects_to_what_is_broken(viewer: Viewer, trace: Any, report: Any) -> None:
    """Each of these has to be noticed, or nothing was shown above."""
    def without(fits: Callable[[Any], Any]) -> Any:
        broken = copy.deepcopy(trace)
        events = broken["traceEvents"]
        fitting = [at for at, it in enumerate(events) if fits(it)]
        del events[fitting[len(fitting) // 2]]
        return broken

    def moved(fits: Callable[[Any], Any]) -> Any:
        broken = copy.deepcopy(trace)
        fitting = [it for it in broken["traceEvents"] if fits(it)]
        one, other = fitting[0], fitting[-1]
        one["ts"], one["pid"], one["tid"] = other["ts"], other["pid"], other["tid"]
        return broken

    def is_arrows(phase: str) -> Callable[[Any], Any]:
        return lambda it: it["ph"] == phase and it["name"] == "message"

    for what, broken in (
            ("an arrow's begin", without(is_arrows("s"))),
            ("an arrow's end", without(is_arrows("f"))),
            ("a send", without(lambda it: it["ph"] == "X" and it["name"] == "send")),
            ("an arrival", without(lambda it: it["ph"] == "X" and it["name"] == "receive")),
            ("an arrow to another arrival", moved(is_arrows("f")))):
        try:
            check(viewer.read(broken), report)
        except AssertionError:
            continue
        raise AssertionError(f"nobody misses {what}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        viewer = Viewer(folder)
        try:
            trace, report = run(folder)
            seen = viewer.read(trace)
            check(seen, report)
            objects_to_what_is_broken(viewer, trace, report)
        finally:
            viewer.browser.quit()
    print(f"trace_viewer_test: passed: {len(seen['slices'])} slices, {len(seen['arrows'])} arrows")


if not VIEWERS:
    skip("golang-src is not installed, which has Chrome's trace viewer")
if len(sys.argv) > 1:
    main()
