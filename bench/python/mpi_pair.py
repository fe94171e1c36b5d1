"""One of two ranks: mpi_pair.py BYTES CPU DOOR. Both are told how many trips a round has, rank 0 on
its standard input, the other one by the pipe DOOR: in a call of MPI it would poll while others are
measured. Rank 0 says what they took; rank 1 reads what comes, and sends its checksum back."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time

import numpy as np
from mpi4py import MPI


def main() -> None:
    comm = MPI.COMM_WORLD
    nbytes, cpu = int(sys.argv[1]), int(sys.argv[2])
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[0] if comm.rank == 0 else cpu})
    turns = sys.stdin if comm.rank == 0 else open(sys.argv[3])
    random = np.random.default_rng(1)
    payload, answer = np.empty(nbytes // 8, "u8"), np.empty(1, "u8")
    while (count := int(turns.readline() or 0)) > 0:
        times, began_cpu, spent = [], time.process_time(), 0.0
        for _ in range(count):
            if comm.rank == 1:
                comm.Recv(payload, 0)
                answer[0] = np.add.reduce(payload, dtype="u8")
                comm.Send(answer, 0)
                continue
            payload[:] = random.integers(0, 1 << 32, dtype="u8")
            payload += np.arange(len(payload), dtype="u8")
            expected = np.add.reduce(payload, dtype="u8")
            cpu_then, began = time.process_time(), time.perf_counter()
            comm.Send(payload, 1)
            comm.Recv(answer, 1)
            times.append(time.perf_counter() - began)
            spent += time.process_time() - cpu_then
            if answer[0] != expected:
                raise SystemExit("mpi4py: a wrong checksum")
        total = comm.gather(spent if comm.rank == 0 else time.process_time() - began_cpu)
        if comm.rank == 0:
            print(json.dumps([statistics.median(times) * 1e9,
                              sorted(times)[count * 99 // 100] * 1e9,
                              sum(total) / (count * nbytes / 1e9)]), flush=True)  # fmt: skip


main()
