#!/usr/bin/python3
"""The page of `gantry serve` in a real browser.

usage: serve_page_test.py GANTRY
77: skipped, a program that it needs is not installed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from browser import open_browser
from selenium.webdriver.common.keys import Keys

GANTRY = sys.argv[1]
HOSTILE = "<img src=x onerror=document.title='hurt'>"
LONG = 60  # seconds, for what should not take long


def eventually(holds: Callable[[], Any]) -> Any:
    end = time.monotonic() + LONG
    while not (found := holds()):
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.01)
    return found


class Scene:
    """Frames go to two readers; one of them passes them on. A fourth name is nonsense."""

    def __init__(self, folder: str) -> None:
        self.env = dict(os.environ, GANTRY_DIR=folder, GANTRY_CALIBRATE="off")
        self.started: list[subprocess.Popen[bytes]] = []
        put = [GANTRY, "put", "frames", "--lines", "--consumers", "2"]
        self.putting = self.start(put, stdin=subprocess.PIPE, bufsize=0)
        self.reading = self.start([GANTRY, "get", "frames"], stdout=subprocess.DEVNULL)
        passing = self.start([GANTRY, "get", "frames"], stdout=subprocess.PIPE)
        self.start([GANTRY, "put", "tiles", "--lines"], stdin=passing.stdout)
        self.start([GANTRY, "get", "tiles"], stdout=subprocess.DEVNULL)
        self.mute = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Its folder may be long; a socket's path may not.
        here = os.open(folder, os.O_PATH)
        self.mute.bind(f"/proc/self/fd/{here}/{HOSTILE}.sock")
        self.mute.listen(1)
        self.serving = self.start([GANTRY, "serve", "--listen", "127.0.0.1:0"],
                                  stderr=subprocess.PIPE)
        assert self.serving.stderr
        said = self.serving.stderr.readline().decode()
        found = re.search(r"http://\S+/", said)
        assert found, said
        self.url = found.group()

    def start(self, words: list[str], **streams: Any) -> subprocess.Popen[bytes]:
        self.started.append(subprocess.Popen(words, env=self.env, **streams))
        return self.started[-1]

    def send(self, text: bytes) -> None:
        assert self.putting.stdin
        self.putting.stdin.write(text)

    def status(self) -> Any:
        with urllib.request.urlopen(self.url + "status.json", timeout=LONG) as answer:
            return json.load(answer)

    def end(self) -> None:
        for one in self.started:
            one.kill()
            one.wait()
        self.mute.close()


def ask(browser: Any, expression: str) -> Any:
    return browser.execute_script(f"return {expression}")


def row(name: str) -> str:
    return f"document.querySelector('details[data-channel={name}]')"


def shows_the_graph(scene: Scene, browser: Any) -> None:
    texts = "[...document.querySelectorAll('#graph text')].map((it) => it.textContent)"
    wanted = {"frames", "tiles", "gantry put", "gantry get"} | {f"pid {one.pid}" for one in scene.started[:5]}
    eventually(lambda: wanted <= set(ask(browser, texts)))
    paths = "document.querySelectorAll('#graph g.edge').length"
    assert ask(browser, paths) == 6, ask(browser, paths)  # 3 of frames, 2 of tiles, the mute one's


def shows_the_rates_of_the_source(scene: Scene, browser: Any) -> None:
    seen = f"{{look: last.look, bytes: {row('frames')}.querySelector('.rate').dataset.bytes, " \
           f"text: {row('frames')}.querySelector('.rate').textContent}}"

    def same_look() -> Any:
        scene.send(b"x" * 999 + b"\n")
        status = scene.status()
        page = ask(browser, seen)
        rate = next(it["bytes_per_second"] for it in status["channels"] if it["name"] == "frames")
        return rate and status["look"] == page["look"] and (rate, page)

    rate, page = eventually(same_look)
    assert abs(float(page["bytes"]) - rate) <= 0.05 * rate, (rate, page)
    number, unit = re.search(r"([\d.]+) (B|kB|MB)/s", page["text"]).groups()  # type: ignore
    shown = float(number) * {"B": 1, "kB": 1e3, "MB": 1e6}[unit]
    assert abs(shown - rate) <= max(0.05 * rate, 1), (rate, page)


def turns_red_with_the_pid(scene: Scene, browser: Any) -> None:
    pid = scene.reading.pid
    browser.execute_script("""
      window.redAt = null;
      new MutationObserver(() => {
        const alarm = [...document.querySelectorAll('#alarms li')]
          .find((it) => it.dataset.pids.split(' ').includes(arguments[0]));
        if (alarm && redAt === null) redAt = {look: last.look, text: alarm.textContent};
      }).observe(document.querySelector('#alarms'), {childList: true});""", str(pid))
    before = ask(browser, "last.look")
    begin = time.monotonic()
    scene.reading.send_signal(signal.SIGSTOP)
    red = eventually(lambda: ask(browser, "redAt"))
    print(f"serve_page_test: red after {time.monotonic() - begin:.2f} s")
    assert red["look"] <= before + 3, (red, before)  # looks come twice a second
    assert str(pid) in red["text"] and "stopped" in red["text"], red
    eventually(lambda: ask(browser, f"document.querySelector('#graph [data-pids~=\"{pid}\"]')"
                                    ".classList.contains('bad')"))
    color = ask(browser, "getComputedStyle(document.querySelector('#alarms li')).color")
    red_part, green, blue = (int(it) for it in re.findall(r"\d+", color)[:3])
    assert red_part > 150 and green < 130 and blue < 130, color


def is_used_by_keyboard(scene: Scene, browser: Any) -> None:
    scene.send(b"h" * 102399 + b"\n")  # as small ones it would have no slot to be listed
    browser.find_element("tag name", "body").send_keys("/")
    assert ask(browser, "document.activeElement.id") == "filter"
    browser.switch_to.active_element.send_keys("frames")
    eventually(lambda: ask(browser, "document.querySelectorAll('details').length") == 1)
    browser.switch_to.active_element.send_keys(Keys.TAB)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    body = f"{row('frames')}.querySelector('.body').innerText"
    # Who holds which message since when, and how the newest one was copied.
    reader = rf"gantry get \({scene.reading.pid}\)"
    held = rf"{reader} stopped.*\s100 KiB\s+{reader}\s+unread"
    eventually(lambda: re.search(held, ask(browser, body), re.S))
    assert "Newest copy: 100 KiB" in ask(browser, body), ask(browser, body)
    browser.find_element("id", "filter").send_keys(Keys.CONTROL + "a", Keys.DELETE)
    eventually(lambda: ask(browser, "document.querySelectorAll('details').length") == 3)


def is_not_hurt_by_names(browser: Any) -> None:
    is_unhurt(browser)
    names = "[...document.querySelectorAll('summary .name')].map((it) => it.textContent)"
    assert HOSTILE in ask(browser, names)


# Of the last stage's input and the two before it, as in examples/vision.
RUN = """[stages.decode]
shell = '{0} put frames --lines <{1}'
[stages.batch]
shell = '{0} get frames | {0} put batches --lines'
[stages.detect]
shell = '{0} get batches | {0} put results --lines'
[stages.sheet]
shell = '{0} get results >/dev/null'
[channels.frames]
from = 'decode'
to = 'batch'
[channels.batches]
from = 'batch'
to = 'detect'
[channels.results]
from = 'detect'
to = 'sheet'
"""
# Each look that the page draws, with the text on the arrow of each channel of the run.
RECORD = """
window.looks = [];
const draws = window.show;
window.show = (status) => {
  draws(status);
  const ours = status.channels.filter((it) => it.name.startsWith('run-') && it.answered);
  looks.push({look: status.look, channels: Object.fromEntries(ours.map((it) =>
    [it.name.split(/[/.]/)[1], {age: it.age_ns, bytes: it.bytes, text: drawn.edges.find((edge) =>
      edge.channel === it.name && !edge.consumer).label.textContent}]))});
};"""


def rate_of(text: str) -> float:
    found = re.fullmatch(r"([\d.]+) (B|kB|MB|GB)/s", text)
    assert found, text
    return float(found[1]) * {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}[found[2]]


def drawn_bytes(looks: list[Any], name: str) -> tuple[float, int]:
    """What the arrow's rates amount to from the first look that has the channel to the last, and
    how many rates that are. What the page did not draw is counted as the counters have it."""
    seen = [(it["look"], it["channels"][name]) for it in looks if name in it["channels"]]
    total, rates = float(seen[0][1]["bytes"]), 0
    for (one, before), (other, now) in zip(seen, seen[1:]):
        moved = now["bytes"] - before["bytes"]
        if other == one + 1:
            total += rate_of(now["text"]) * (now["age"] - before["age"]) / 1e9
            rates += moved > 0
        else:
            total += moved
    return total, rates


def draws_each_stage_once(browser: Any) -> None:
    """Arrows between them have the channels' names, and no text runs out of its box."""
    texts = "[...document.querySelectorAll('#graph {}')].map((it) => it.textContent)"
    assert sorted(ask(browser, texts.format(".stage text:not(.small)"))) == \
        ["batch", "decode", "detect", "sheet"], ask(browser, texts.format("text"))
    named = {it for it in ask(browser, texts.format(".edge text:not(.small)")) if it}
    assert named == {"frames", "batches", "results"}, named
    too_long = "[...document.querySelectorAll('#graph g:not(.edge)')].filter((it) => " \
        "[...it.querySelectorAll('text')].some((text) => text.getComputedTextLength() > " \
        "it.querySelector('rect').width.baseVal.value - 10)).map((it) => it.textContent)"
    assert ask(browser, too_long) == [], ask(browser, too_long)


def draws_a_run_at_the_reports_rates(scene: Scene, folder: str, browser: Any) -> None:
    """The run's input begins after the first look at it and ends before the last one."""
    file, fifo, names = f"{folder}/demo.toml", f"{folder}/frames", ("frames", "batches", "results")
    os.mkfifo(fifo)
    with open(file, "w") as text:
        text.write(RUN.format(GANTRY, fifo))
    browser.execute_script(RECORD)
    running = scene.start([GANTRY, "run", file, "--json", "--quiet"], stdout=subprocess.PIPE)
    feeding = os.open(fifo, os.O_RDWR)
    newest = "looks.at(-1)?.channels ?? {}"
    eventually(lambda: set(ask(browser, newest)) == set(names))
    eventually(lambda: all(it["consumers"] for it in scene.status()["channels"]
                           if it["pipeline"] == "demo"))
    eventually(lambda: ask(browser, "document.querySelectorAll('#graph .stage').length") == 4)
    draws_each_stage_once(browser)
    sent = 0

    def enough() -> bool:
        nonlocal sent
        for _ in range(20):
            sent += os.write(feeding, b"x" * 49999 + b"\n")
        return all(drawn_bytes(ask(browser, "looks"), it)[1] >= 6 for it in names)

    eventually(enough)
    eventually(lambda: all(it["bytes"] == sent for it in ask(browser, newest).values()))
    looks = ask(browser, "looks")
    os.close(feeding)
    report = json.loads(running.communicate(timeout=LONG)[0])
    assert running.returncode == 0 and report["accounted"], report
    for channel in report["channels"]:
        drawn = drawn_bytes(looks, channel["name"])[0] / channel["seconds"]
        wanted = channel["gb_per_s"] * 1e9
        assert abs(drawn - wanted) <= 0.05 * wanted, (channel, drawn, wanted, looks)


def keeps_its_charts_when_the_clock_jumps(browser: Any) -> None:
    browser.execute_script("const real = Date.now.bind(Date); window.jump = 0;"
                           "Date.now = () => real() + window.jump;")
    points = ask(browser, "total.points.length")
    assert points > 2, points
    for hours in (1, -1):
        browser.execute_script(f"window.jump = {hours} * 3600e3")
        look = ask(browser, "last.look")
        eventually(lambda: ask(browser, "last.look") > look + 1)
        assert ask(browser, "total.points.length") >= points
        line = ask(browser, "document.querySelector('#total polyline').getAttribute('points')")
        places = [float(one.split(",")[0]) for one in line.split()]
        assert places == sorted(places) and 0 <= places[0] and places[-1] == 300, places
    assert ask(browser, "document.querySelector('#state').textContent") == "live"


def fits_a_phone_and_the_night(browser: Any) -> None:
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True})
    wide = "document.documentElement.scrollWidth"
    assert ask(browser, wide) <= 360, ask(browser, wide)
    papers = set()
    for scheme in ("light", "dark"):
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})
        papers.add(ask(browser, "getComputedStyle(document.body).backgroundColor"))
    assert len(papers) == 2, papers


def tells_who_is_gone(scene: Scene, browser: Any) -> None:
    scene.reading.kill()
    line = f"pid {scene.reading.pid}, consumer of frames"
    eventually(lambda: line in ask(browser, "document.querySelector('#gone').textContent"))
    scene.serving.send_signal(signal.SIGINT)
    assert scene.serving.wait(LONG) == 130
    eventually(lambda: "no answer" in ask(browser, "document.querySelector('#state').textContent"))


def opens_a_report(folder: str, browser: Any) -> None:
    """The page of a run is a file, under the name of a pipeline that is markup."""
    file, page = f"{folder}/{HOSTILE}.toml", f"{folder}/report.html"
    with open(file, "w") as text:
        text.write(f"[stages.make]\nshell = 'seq 1 1000 | {GANTRY} put numbers --lines'\n"
                   f"[stages.count]\nshell = '{GANTRY} get numbers | wc -l'\n"
                   "[channels.numbers]\nfrom = 'make'\nto = 'count'\n")
    env = dict(os.environ, GANTRY_DIR=f"{folder}/channels", GANTRY_CALIBRATE="off")
    words = [GANTRY, "run", file, "--json", "--quiet", "--report", page]
    ran = subprocess.run(words, env=env, check=True, capture_output=True)
    channel = json.loads(ran.stdout)["channels"][0]
    browser.get(f"file://{page}")
    eventually(lambda: ask(browser, "document.querySelectorAll('details').length") == 1)
    texts = ask(browser, "[...document.querySelectorAll('#graph text')]"
                         ".map((it) => it.textContent)")
    assert {"make", "count", "numbers"} <= set(texts), texts
    browser.execute_script("document.querySelector('details').open = true")
    eventually(lambda: re.search(r"make\s+count\s+1,000\s+1,000",
                                 ask(browser, "document.querySelector('.body').innerText")))
    rate = float(ask(browser, "document.querySelector('.rate').dataset.bytes"))
    wanted = channel["bytes"] / json.loads(ran.stdout)["wall_s"]
    assert abs(rate - wanted) <= 0.05 * wanted, (rate, wanted)
    points = ask(browser, "document.querySelector('.body polyline').getAttribute('points')")
    assert points.count(",") >= 1, points
    assert ask(browser, "document.querySelector('#slowest').textContent") == \
        f"The slowest stage is {json.loads(ran.stdout)['slowest_stage']}: it waited least."
    captions = ask(browser, "[...document.querySelectorAll('figcaption')]"
                            ".map((it) => it.textContent)")
    assert len(captions) == 6, captions
    for caption in captions:  # nothing of a run that is over is so now
        assert re.fullmatch(r"(messages|payload|depth): at most .* in [\d.]+ \w+", caption), caption
    assert not re.search(r"\b(live|now|yet)\b", ask(browser, "document.body.innerText"))
    assert HOSTILE in ask(browser, "document.querySelector('#where').textContent")
    is_unhurt(browser)


def opens_a_report_of_what_failed(folder: str, browser: Any) -> None:
    file, page = f"{folder}/failing.toml", f"{folder}/failed.html"
    with open(file, "w") as text:
        text.write(f"[stages.count]\nshell = \"echo '{HOSTILE.replace(chr(39), '')}' >&2; exit 3\"")
    env = dict(os.environ, GANTRY_DIR=f"{folder}/channels", GANTRY_CALIBRATE="off")
    ran = subprocess.run([GANTRY, "run", file, "--quiet", "--report", page], env=env,
                         stderr=subprocess.PIPE)
    assert ran.returncode == 1, ran
    browser.get(f"file://{page}")
    eventually(lambda: ask(browser, "document.querySelector('#alarms').innerText")
               == "stage count: exited with status 3")
    assert ask(browser, "document.querySelector('#state').textContent").endswith(", failed")
    words = ask(browser, "document.querySelector('#last-words').innerText")
    assert HOSTILE.replace("'", "") in words, words
    is_unhurt(browser)


def is_unhurt(browser: Any) -> None:
    assert ask(browser, "document.images.length") == 0
    assert ask(browser, "document.title") == "gantry"
    said = [it for it in browser.get_log("browser") if it["level"] != "INFO"]
    assert not said, said  # nothing that the Content-Security-Policy had to stop either


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/channels", 0o700)
        scene = Scene(f"{folder}/channels")
        browser = open_browser(f"{folder}/browser")
        try:
            browser.get(scene.url)
            shows_the_graph(scene, browser)
            shows_the_rates_of_the_source(scene, browser)
            turns_red_with_the_pid(scene, browser)
            is_used_by_keyboard(scene, browser)
            is_not_hurt_by_names(browser)
            draws_a_run_at_the_reports_rates(scene, folder, browser)
            keeps_its_charts_when_the_clock_jumps(browser)
            fits_a_phone_and_the_night(browser)
            if len(sys.argv) > 2:
                browser.save_screenshot(sys.argv[2])
            tells_who_is_gone(scene, browser)
            browser.get_log("browser")  # that nobody answered any more
            opens_a_report(folder, browser)
            opens_a_report_of_what_failed(folder, browser)
        finally:
            browser.quit()
            scene.end()
    print("serve_page_test: passed")


main()
