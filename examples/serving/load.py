"""Starts the service with each transport, sends it pages, and checks every reply.

Each reply is compared with what the model reads from that image in this process.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import model
import numpy as np

HERE = Path(__file__).resolve().parent
NEEDS = {"gantry": "gantry", "torch": "torch", "mp": "multiprocessing", "zmq": "zmq"}
CLOSE = 1e-4  # two scores that are as near may change places in another batch


def pages(count: int, net: Any) -> list[tuple[bytes, Any, Any]]:
    """Images, what the model reads from them, and where it is sure of that."""
    random = np.random.default_rng(1)
    made = []
    for _ in range(count):
        png = model.draw(random)
        floats = np.empty((model.PAGE, model.DIGIT, model.DIGIT), "f4")
        model.decode(png, floats)
        best = model.scores(net, floats).topk(2, dim=1)
        sure = (best.values[:, 0] - best.values[:, 1] > CLOSE).numpy()
        made.append((png, best.indices[:, 0].numpy(), sure))
    return made


def ask(url: str, work: queue.Queue[Any], times: list[float], wrong: list[str]) -> None:
    http = HTTPConnection(urlsplit(url).netloc, timeout=60)
    while True:
        try:
            image, right, sure = work.get_nowait()
        except queue.Empty:
            return http.close()
        begin = time.perf_counter()
        try:
            http.request("POST", "/", image)
            reply = http.getresponse()
            body = reply.read()
        except (OSError, HTTPException) as error:
            wrong.append(repr(error))
            continue
        times.append(time.perf_counter() - begin)
        read = np.frombuffer(body.replace(b"\n", b""), "u1") - 48
        if reply.status != 200 or read.shape != right.shape or (read != right)[sure].any():
            wrong.append(f"status {reply.status}: {body[:80]!r}")


def processes(url: str) -> dict[str, Any]:
    http = HTTPConnection(urlsplit(url).netloc, timeout=60)
    http.request("GET", "/")
    told: dict[str, Any] = json.load(http.getresponse())
    http.close()
    return told


def cpu_seconds(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def run(transport: str, made: list[Any], given: argparse.Namespace) -> dict[str, Any]:
    service = subprocess.Popen(
        [sys.executable, HERE / "serve.py", "--transport", transport, "--weights", given.weights],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert service.stdout is not None
    try:
        url = service.stdout.readline().rpartition(" ")[2].strip()
        if not url:
            sys.exit(f"load: the service did not start with --transport {transport}")
        times: list[float] = []
        wrong: list[str] = []
        for warm_up, count in ((True, 2 * given.clients), (False, given.requests)):
            work: queue.Queue[Any] = queue.Queue()
            for number in range(count):
                work.put(made[number % len(made)])
            times.clear()
            clients = [
                threading.Thread(target=ask, args=(url, work, times, wrong))
                for _ in range(given.clients)
            ]
            told = processes(url)
            pids = [service.pid, told["model"], *told["decoders"]]
            begin, cpu = time.perf_counter(), cpu_seconds(pids)
            for client in clients:
                client.start()
            if given.kill and not warm_up:
                os.kill(told["decoders"][0], signal.SIGKILL)
            for client in clients:
                client.join()
            took = time.perf_counter() - begin
            cpu = float("nan") if given.kill else cpu_seconds(pids) - cpu
        for line in wrong[:3]:
            print(f"load: {transport}: {line}", file=sys.stderr)
        times.sort()
        return {"transport": transport, "replies": len(times), "wrong": len(wrong),
                "pages_per_s": len(times) / took, "p50_ms": times[len(times) // 2] * 1e3,
                "p99_ms": times[len(times) * 99 // 100] * 1e3,
                "cpu_ms": cpu / given.requests * 1e3}  # fmt: skip
    finally:
        service.send_signal(signal.SIGINT)
        if service.wait(30) != 0:
            sys.exit(f"load: {transport}: the service ended with {service.returncode}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transports", default=",".join(NEEDS), help="with commas between")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--clients", type=int, default=16, help="that wait for replies at once")
    parser.add_argument("--weights", help="what model.py has written (else it is trained now)")
    parser.add_argument("--kill", action="store_true", help="kill -9 a decoder meanwhile")
    given = parser.parse_args()
    transports = given.transports.split(",")
    for unknown in [name for name in transports if name not in NEEDS]:
        parser.error(f"--transports: there is no '{unknown}'; {', '.join(NEEDS)}")
    if min(given.requests, given.clients) < 1:
        parser.error("--requests and --clients are 1 or more")
    with tempfile.TemporaryDirectory() as scratch:
        if given.weights is None:
            given.weights = f"{scratch}/weights.pt"
            model.train(given.weights)
        made = pages(min(given.requests, 20), model.load(given.weights))
        print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, load "
              f"{os.getloadavg()[0]:.1f} before; {given.requests} pages, {given.clients} clients")  # fmt: skip
        print(f"{'':9} pages/s    p50 ms    p99 ms  CPU ms/page   wrong")
        bad = 0
        for transport in transports:
            if importlib.util.find_spec(NEEDS[transport]) is None:
                print(f"{transport:9} not measured: {NEEDS[transport]} is not installed")
                continue
            it = run(transport, made, given)
            bad += it["wrong"] + (it["replies"] != given.requests)
            print(f"{transport:8} {it['pages_per_s']:8.1f} {it['p50_ms']:9.1f} {it['p99_ms']:9.1f}"
                  f" {it['cpu_ms']:12.1f} {it['wrong']:7}", flush=True)  # fmt: skip
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
