"""Four ways to bring frames to an inbox that has a name: gantry, torch, mp (multiprocessing), zmq.

A frame is bytes as a NumPy array. `with out.frame(size) as frame` lends one to be written, and sends
it. `inbox.receive(timeout)` gives one to be read, or None. Whoever may send is told by the folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection
from typing import Any

import numpy as np

SLEEP = -1  # spin_ns: there are more processes here than a small machine has CPUs
Frame = Any  # numpy.ndarray of uint8


def folder() -> str:
    return os.environ["SERVING_DIR"]


class GantryInbox:
    def __init__(self, name: str) -> None:
        import gantry

        self._timed_out = gantry.TimedOut
        self._inbox = gantry.Inbox(name, runtime=gantry.Runtime(folder()), spin_ns=SLEEP)

    def receive(self, timeout: float) -> Frame | None:
        try:
            return self._inbox.receive(timeout).array  # where the sender wrote it
        except self._timed_out:
            return None


class GantryOut:
    def __init__(self, name: str, timeout: float) -> None:
        import gantry

        self._out = gantry.Producer.connect(
            name, timeout=timeout, runtime=gantry.Runtime(folder()), spin_ns=SLEEP
        )

    def frame(self, size: int) -> Any:
        return self._out.loan(size)  # in the memory that the receiver will read

    def close(self) -> None:
        self._out.drop()


class MpInbox:
    def __init__(self, name: str) -> None:
        self._listener = connection.Listener(f"{folder()}/{name}", "AF_UNIX", backlog=8)
        self._door: Any = self._listener._listener._socket  # type: ignore[attr-defined]
        self._senders: list[Any] = []

    def receive(self, timeout: float) -> Frame | None:
        for ready in connection.wait([self._door, *self._senders], timeout):
            if ready is self._door:
                self._senders.append(self._listener.accept())
                continue
            try:
                return self._take(ready)
            except (OSError, EOFError):  # its process is gone
                self._senders.remove(ready)
        return None

    def _take(self, sender: Any) -> Frame:
        return np.frombuffer(sender.recv_bytes(), "u1")


class MpOut:
    def __init__(self, name: str, timeout: float) -> None:
        end = time.monotonic() + timeout
        while True:
            try:
                self._to: Any = connection.Client(f"{folder()}/{name}", "AF_UNIX")
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)

    @contextmanager
    def frame(self, size: int) -> Iterator[Frame]:
        frame = np.empty(size, "u1")
        yield frame
        self._to.send_bytes(frame)

    def close(self) -> None:
        self._to.close()


class TorchInbox(MpInbox):
    def _take(self, sender: Any) -> Frame:
        import torch.multiprocessing  # noqa: F401  (how tensors are pickled)

        return sender.recv().numpy()


class TorchOut(MpOut):
    @contextmanager
    def frame(self, size: int) -> Iterator[Frame]:
        import torch.multiprocessing

        tensor = torch.empty(size, dtype=torch.uint8).share_memory_()
        yield tensor.numpy()
        self._to.send(tensor)


class ZmqInbox:
    def __init__(self, name: str) -> None:
        import zmq

        self._socket: Any = zmq.Context.instance().socket(zmq.PULL)
        self._socket.bind(f"ipc://{folder()}/{name}")

    def receive(self, timeout: float) -> Frame | None:
        if not self._socket.poll(timeout * 1000):
            return None
        return np.frombuffer(self._socket.recv(copy=False), "u1")


class ZmqOut:
    def __init__(self, name: str, timeout: float) -> None:
        import zmq

        self._socket: Any = zmq.Context.instance().socket(zmq.PUSH)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDTIMEO, int(timeout * 1000))
        self._socket.connect(f"ipc://{folder()}/{name}")

    @contextmanager
    def frame(self, size: int) -> Iterator[Frame]:
        frame = np.empty(size, "u1")
        yield frame
        self._socket.send(frame, copy=False)

    def close(self) -> None:
        self._socket.close()


TRANSPORTS: dict[str, tuple[Any, Any]] = {
    "gantry": (GantryInbox, GantryOut), "torch": (TorchInbox, TorchOut),
    "mp": (MpInbox, MpOut), "zmq": (ZmqInbox, ZmqOut),
}  # fmt: skip
