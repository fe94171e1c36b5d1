"""gantry bench python: an array to another Python process, read there whole, its checksum back."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from typing import Any

os.environ["GANTRY_DIR"] = tempfile.mkdtemp(prefix="gantry-bench-")

import numpy as np
import peers
import subjects
import workers
from progress import Progress
from sharing import sharing
from subjects import Subject

SUBJECTS: dict[str, type[Subject]] = {
    kind.name: kind
    for kind in (subjects.GantrySend, subjects.GantryLoan, subjects.GantryPolled,
                 subjects.GantryMove, subjects.GantryQueue, peers.Queue, peers.Pipe,
                 peers.SharedMemory, peers.TorchQueue, peers.ZeroMq, peers.Mpi, peers.Cpp,
                 peers.CppLoan, peers.Flags)
}  # fmt: skip

SIZES = {64: 1000, 64 << 10: 400, 1 << 20: 100, 16 << 20: 10, 128 << 20: 2}  # trips in a round
TOLD = {
    "threads": "the speed of a thread that counts while another receives 16 MiB after 16 MiB,"
    " as a part of its speed while another process receives them",
    "asyncio": "receive_async() of 64 KiB, as a part of the rate of receive()",
}
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def size_of(text: str) -> int:
    number = text.rstrip("KMGiB")
    unit = text[len(number) :]
    nbytes = int(number) * UNITS.get(unit, 0) if number.isdecimal() else 0
    if nbytes == 0 or nbytes % 8:
        raise SystemExit(
            f"gantry: bench python: --sizes: '{text}'; multiples of 8 bytes, as 64,64KiB,1MiB"
        )
    return nbytes


def name_of(nbytes: int) -> str:
    for unit in ("GiB", "MiB", "KiB"):
        if nbytes % UNITS[unit] == 0:
            return f"{nbytes // UNITS[unit]} {unit}"
    return f"{nbytes} B"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "gantry bench python", description=__doc__,
        epilog="Example: gantry bench python --quick --peers")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="three short rounds")
    parser.add_argument("--rounds", type=int, help="rounds in which all take turns (7; quick: 3)")
    parser.add_argument("--sizes", help="bytes of the payload: 64,64KiB,1MiB,16MiB,128MiB")
    parser.add_argument("--peers", action="store_true", help="what other ways Python has, too")
    parser.add_argument("--subjects", help="only these: " + ", ".join(SUBJECTS))
    parser.add_argument("--cases", default="latency,objects,sharing",
                        help="of latency, objects, sharing")
    parser.add_argument("--workers", action="store_true", help="also items a second through a "
                        "queue to 1, 2 and 4 workers, with --peers beside"
                        " multiprocessing's")  # fmt: skip
    parser.add_argument("--plot", metavar="FILE", help="an SVG file to draw the figures into")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return parser.parse_args()


def chosen(given: argparse.Namespace) -> list[str]:
    if not given.subjects:
        return [name for name in SUBJECTS if given.peers or name.startswith("gantry/")]
    names = str(given.subjects).split(",")
    for name in names:
        if name not in SUBJECTS:
            sys.exit(f"gantry: bench python: no subject '{name}'; there are {', '.join(SUBJECTS)}")
    return names


def taking_part(case: str, nbytes: int, names: list[str]) -> list[str]:
    return [name for name in names if SUBJECTS[name].least <= nbytes
            and (SUBJECTS[name].takes_objects or case != "objects")]  # fmt: skip


def measure(
    case: str, nbytes: int, names: list[str], rounds: int, quick: bool, progress: Progress
) -> list[dict[str, Any]]:
    """All subjects of one size, which take turns."""
    objects = case == "objects"
    allowed = sorted(os.sched_getaffinity(0))
    trips = SIZES.get(nbytes, max(2, min(1000, (100 << 20) // nbytes)))
    trips = max(2, trips // 4) if quick else trips
    if not (names := taking_part(case, nbytes, names)):
        return []
    entrants = [
        SUBJECTS[name](nbytes, allowed[-1], number, objects) for number, name in enumerate(names)
    ]
    os.sched_setaffinity(0, {allowed[0]})
    random = np.random.default_rng(1)
    series: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
    try:
        for entrant in entrants:
            entrant.start()
            entrant.round(2, random)  # warms up
        for turn in range(rounds):
            progress.step(f"{case}, {name_of(nbytes)}")
            for entrant in entrants[turn % len(names) :] + entrants[: turn % len(names)]:
                series[entrant.name].append(entrant.round(trips, random))
    finally:
        for entrant in entrants:
            entrant.stop()
        os.sched_setaffinity(0, set(allowed))
    return [
        {"case": case, "subject": name, "bytes": nbytes, "metric": metric, "unit": unit,
         "value": statistics.median(values), "min": min(values), "max": max(values),
         "rounds": rounds}
        for name, rows in series.items()
        for metric, unit, values in zip(("latency_p50", "latency_p99", "cpu_per_gb"),
                                        ("ns", "ns", "s/GB"), zip(*rows))
    ]  # fmt: skip


def findings(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How the peers compare with our ways."""
    p50 = {(r["case"], r["subject"], r["bytes"]): r["value"]
           for r in results if r["metric"] == "latency_p50"}  # fmt: skip
    return [
        {"case": case, "what": f"{peer} / {own}", "bytes": nbytes,
         "ratio": round(value / p50[case, own, nbytes], 2)}
        for (case, peer, nbytes), value in p50.items() if not peer.startswith("gantry/")
        for own in ("gantry/send", "gantry/loan", "gantry/loan polled", "gantry/Queue")
        if (case, own, nbytes) in p50
    ]  # fmt: skip


def table(case: str, nbytes: int, rows: list[dict[str, Any]], rounds: int) -> str:
    what = "an object with " if case == "objects" else ""
    lines = [f"{what}{name_of(nbytes)}, {rounds} rounds: a round trip takes us: median (least to"
             " most of the rounds), 99th percentile; CPU s/GB of both"]  # fmt: skip
    for p50, p99, cpu in zip(rows[::3], rows[1::3], rows[2::3]):
        low, middle, high = (p50[key] / 1e3 for key in ("min", "value", "max"))
        lines.append(f"  {p50['subject']:22} {middle:10.1f} ({low:.1f} to {high:.1f})"
                     f" {p99['value'] / 1e3:10.1f} {cpu['value']:8.2f}")  # fmt: skip
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    with open("/proc/cpuinfo") as lines:
        model = next((line.split(": ")[1].strip() for line in lines if "model name" in line), "?")
    return {"cpu_model": model, "cpus": os.cpu_count(), "kernel": platform.release(),
            "python": platform.python_version(), "numpy": np.__version__}  # fmt: skip


def drawn(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The figures as a picture has them: sizes are cases, and bytes an ns are GB/s."""
    rates = [
        {**r, "case": name_of(r["bytes"]), "metric": "throughput", "unit": "GB/s",
         "value": r["bytes"] / r["value"], "min": r["bytes"] / r["max"],
         "max": r["bytes"] / r["min"]}
        for r in results if r["case"] == "latency" and r["metric"] == "latency_p50"
    ]  # fmt: skip
    return rates + [{**r, "case": f"{r['case']}, {name_of(r['bytes'])}"} for r in results]


def plot(path: str, results: list[dict[str, Any]] | None = None) -> None:
    """By the program that draws for all benchmarks; without results, asks whether it could."""
    command = [os.environ["GANTRY_BENCH_PROGRAMS"] + "/gantry-bench-plot", "-", path]
    told = json.dumps({"bench": "python", "results": drawn(results or [])})
    try:
        done = subprocess.run([*command, *([] if results else ["--check"])], input=told, text=True,
                              capture_output=True, check=False)  # fmt: skip
    except OSError as error:
        raise SystemExit(f"gantry: bench python: --plot: {command[0]}: {error.strerror};"
                         " build it: ninja gantry-bench-plot") from None  # fmt: skip
    if done.returncode:
        why = done.stderr.strip().removeprefix("gantry: bench plot: ")
        raise SystemExit("gantry: bench python: " + why.replace("PICTURE", "--plot", 1))


class Bench:
    """What is measured, and what was found; shown at once unless it is to be one document."""

    def __init__(self, given: argparse.Namespace, names: list[str]) -> None:
        self.given = given
        self.results: list[dict[str, Any]] = []
        self.skipped = [{"subject": name, "reason": why} for name in names
                        if (why := SUBJECTS[name].lack())]  # fmt: skip
        lost = [it["subject"] for it in self.skipped]
        self.names = [name for name in names if name not in lost]
        self.rounds: int = given.rounds or (3 if given.quick else 7)
        sizes = [size_of(s) for s in given.sizes.split(",")] if given.sizes else list(SIZES)
        self.cases = given.cases.split(",")
        self.trips = [(case, nbytes) for case in ("latency", "objects") if case in self.cases
                      for nbytes in sizes if taking_part(case, nbytes, self.names)]  # fmt: skip
        self.kinds = [kind for kind in workers.KINDS if given.workers
                      and (given.peers or kind.startswith("gantry/"))]  # fmt: skip
        self.progress = Progress("bench python", self.steps())

    def steps(self) -> int:
        """Rounds of trips, of both cases of sharing, and of the workers."""
        counts = len(workers.SIZES) * len(workers.WORKERS) * len(self.kinds)
        return self.rounds * (len(self.trips) + 2 * ("sharing" in self.cases) + counts)

    def tell(self, text: str) -> None:
        self.progress.clear()
        if not self.given.json:
            print(text, flush=True)

    def run(self) -> None:
        given, rounds = self.given, self.rounds
        for case, nbytes in self.trips:
            rows = measure(case, nbytes, self.names, rounds, given.quick, self.progress)
            self.results += rows
            self.tell(table(case, nbytes, rows, rounds))
        for skip in self.skipped:
            self.tell(f"{skip['subject']}: skipped: {skip['reason']}")
        for it in sharing(rounds, given.quick, self.progress) if "sharing" in self.cases else []:
            self.results.append(it)
            self.tell(f"{TOLD[it['case']]}: {it['value']:.2f} ({it['min']:.2f} to {it['max']:.2f})")
        for r in workers.measure(self.kinds, rounds, given.quick, self.progress):
            self.results.append(r)
            self.tell(f"{name_of(r['bytes'])}, {r['case']}: {r['subject']:22} {r['value']:10.0f}"
                      f" items/s ({r['min']:.0f} to {r['max']:.0f})")  # fmt: skip

    def document(self) -> str:
        return json.dumps({"bench": "python", "machine": machine(), "results": self.results,
                           "skipped": self.skipped, "findings": findings(self.results)},
                          indent=1)  # fmt: skip


def main() -> int:
    given = options()
    names = chosen(given)
    if given.rounds is not None and given.rounds < 1:
        raise SystemExit("gantry: bench python: --rounds: at least 1")
    if given.plot:
        plot(given.plot)
    bench = Bench(given, names)
    with bench.progress:
        bench.run()
    if given.plot:
        plot(given.plot, bench.results)
    if given.json:
        print(bench.document())
    return 0


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    finally:
        shutil.rmtree(os.environ["GANTRY_DIR"], True)
    sys.exit(code)
