"""What else Python has, and what C++ and the machine itself take for the same."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
import sys
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np
from subjects import FORK, QueueSubject, Subject, checksum


class Queue(QueueSubject):
    name = "multiprocessing.Queue"
    make = FORK.Queue


class Pipe(Subject):
    name = "multiprocessing.Pipe"
    takes_objects = True

    def before_fork(self) -> None:
        self.mine, self.theirs = FORK.Pipe()

    def answer(self) -> None:
        self.theirs.send_bytes(checksum(self.array_in(self.theirs.recv())))

    def trip(self) -> Any:
        self.mine.send(self.value())
        return self.mine.recv_bytes()


class TorchQueue(Subject):
    """A tensor through torch's own queue: its memory is made anew, shared, and handed over."""

    name = "torch.multiprocessing"

    @classmethod
    def lack(cls) -> str:
        return lack_of("torch", "python3-torch")

    def before_fork(self) -> None:
        import torch.multiprocessing

        self.torch: Any = torch
        context = torch.multiprocessing.get_context("fork")
        self.there, self.back = context.Queue(), FORK.Queue()

    def prepare(self) -> Any:
        # A tensor that was sent once lies in shared memory: what is sent anew must be made anew.
        self.tensor = self.torch.empty(self.nbytes // 8, dtype=self.torch.int64)
        return self.tensor.numpy().view("u8")

    def answer(self) -> None:
        self.back.put(checksum(self.there.get().numpy().view("u8")))

    def trip(self) -> Any:
        self.there.put(self.tensor)
        return self.back.get()

    def close(self) -> None:
        for queue in (self.there, self.back):
            queue.close()


class SharedMemory(Subject):
    """Copied in, a byte through a pipe, copied out, read."""

    name = "shared_memory"

    def before_fork(self) -> None:
        self.mine, self.theirs = FORK.Pipe()
        self.memory = shared_memory.SharedMemory(create=True, size=self.nbytes)
        self.shared: Any = np.frombuffer(self.memory.buf, "u8", self.nbytes // 8)
        self.private = np.empty(self.nbytes // 8, "u8")

    def answer(self) -> None:
        self.theirs.recv_bytes()
        np.copyto(self.private, self.shared)
        self.theirs.send_bytes(checksum(self.private))

    def trip(self) -> Any:
        np.copyto(self.shared, self.payload)
        self.mine.send_bytes(b"x")
        return self.mine.recv_bytes()

    def close(self) -> None:
        self.shared = None
        self.memory.close()
        self.memory.unlink()


class ZeroMq(Subject):
    name = "pyzmq"

    @classmethod
    def lack(cls) -> str:
        return lack_of("zmq", "python3-zmq")

    def _socket(self, bind: bool) -> Any:
        import zmq

        socket = zmq.Context.instance().socket(zmq.PAIR)
        address = f"ipc://{os.environ['GANTRY_DIR']}/zmq-{self.path}"
        socket.bind(address) if bind else socket.connect(address)
        return socket

    def open_responder(self) -> None:
        self.socket = self._socket(False)

    def open_requester(self) -> None:
        self.socket = self._socket(True)

    def answer(self) -> None:
        frame = self.socket.recv(copy=False)
        self.socket.send(checksum(np.frombuffer(frame, "u8")))

    def trip(self) -> Any:
        self.socket.send(self.payload, copy=False)
        return self.socket.recv()

    def close(self) -> None:
        self.socket.close(0)


class Flags(Subject):
    """The least that two Python processes can do: both look at a word in shared memory until it
    changes. The payload is written where the other one reads it; nothing is checked or kept."""

    name = "limit/polled"

    def before_fork(self) -> None:
        memory = memoryview(mmap.mmap(-1, 64 + self.nbytes))
        self.words = memory[:64].cast("Q")  # asked, answered, the answer
        self.shared: Any = np.frombuffer(memory[64:], "u8", self.nbytes // 8)

    def prepare(self) -> Any:
        return self.shared

    def answer(self) -> None:
        words = self.words
        number = words[1] + 1
        while words[0] != number:
            pass
        words[2] = int.from_bytes(checksum(self.shared), "little")
        words[1] = number

    def trip(self) -> Any:
        words = self.words
        number = words[0] + 1
        words[0] = number
        while words[1] != number:
            pass
        return words[2].to_bytes(8, "little")


class Outside(Subject):
    """Another program measures the trip, and says so as JSON, a line a round."""

    def __init__(self, nbytes: int, cpu: int, number: int, objects: bool = False) -> None:
        self.nbytes, self.cpu = nbytes, cpu

    def start(self) -> None: ...
    def stop(self) -> None: ...


class Mpi(Outside):
    """Two ranks of Open MPI, by buffers (`mpi_pair.py`)."""

    name = "mpi4py"

    @classmethod
    def lack(cls) -> str:
        if shutil.which("mpirun") is None:
            return "openmpi-bin is not installed"
        # Not imported: that would make a rank of this process.
        found = any(Path(at, "mpi4py").is_dir() for at in sys.path)
        return "" if found else "python3-mpi4py is not installed"

    def start(self) -> None:
        here = Path(__file__).parent
        door = f"{os.environ['GANTRY_DIR']}/mpi-{self.nbytes}"
        os.mkfifo(door)
        words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2",
                 "--mca", "orte_tmpdir_base", os.environ["GANTRY_DIR"], sys.executable, "-m", "mpi4py",
                 str(here / "mpi_pair.py"), str(self.nbytes), str(self.cpu), door]  # fmt: skip
        self.ranks = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True)  # fmt: skip
        self.door = os.fdopen(os.open(door, os.O_RDWR), "w")  # whether rank 1 is there or not

    def round(self, count: int, random: Any) -> tuple[float, float, float]:
        assert self.ranks.stdin is not None and self.ranks.stdout is not None
        for to in (self.ranks.stdin, self.door):
            to.write(f"{count}\n")
            to.flush()
        line = self.ranks.stdout.readline()
        if not line:
            raise SystemExit("gantry: bench python: mpi4py: its ranks have ended")
        p50, p99, cpu = json.loads(line)
        return p50, p99, cpu

    def stop(self) -> None:
        self.door.close()
        self.ranks.communicate("0\n", 20)


class Cpp(Outside):
    """The same trip by `gantry bench ipc`, a process of its own for each round."""

    name = "c++ gantry/sync"
    subject = "gantry/sync"

    @classmethod
    def lack(cls) -> str:
        return "" if program() else "gantry-bench-ipc is not beside gantry-bench-python"

    def round(self, count: int, random: Any) -> tuple[float, float, float]:
        ran = subprocess.run([program(), "--subjects", self.subject, "--sizes", str(self.nbytes),
                              "--rounds", "1", "--json"], capture_output=True, text=True,
                             preexec_fn=lambda: os.sched_setaffinity(0, range(os.cpu_count() or 1)))  # fmt: skip
        if ran.returncode != 0:
            raise SystemExit(f"gantry: bench python: {self.name}: {ran.stderr.strip()}")
        found = {r["metric"]: r["value"] for r in json.loads(ran.stdout)["results"]
                 if r["subject"] == self.subject}  # fmt: skip
        return found["latency_p50"], found["latency_p99"], found["cpu_per_gb"]


class CppLoan(Cpp):
    name = "c++ gantry/loan"
    subject = "gantry/loan"


def program() -> str:
    return shutil.which("gantry-bench-ipc", path=os.environ.get("GANTRY_BENCH_PROGRAMS", "")) or ""


def lack_of(module: str, package: str) -> str:
    try:
        __import__(module)
    except ImportError:
        return f"{package} is not installed"
    return ""
