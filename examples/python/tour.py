"""Every way to send and receive, in one program: python3 examples/python/tour.py [--bytes 64M]"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

import gantry
from gantry import rpc

STEP = 1 << 17  # elements
FACTOR = 0x9E3779B97F4A7C15
PATTERN = np.arange(STEP, dtype="u8") * np.uint64(FACTOR)


def child(reader: gantry.PipeReader, answers: gantry.PipeWriter) -> None:
    """Sums what it gets. Another process, and the same arrays."""
    with answers:
        for message in reader:
            answers.send(message.array.sum(dtype="u8", keepdims=True))
            del message  # else the sender waits for this slot while we wait for it


def to_a_child() -> None:
    reader, frames = gantry.pipe()
    sums, answers = gantry.pipe()
    process = multiprocessing.get_context("spawn").Process(target=child, args=(reader, answers))
    process.start()

    frames.send(np.arange(1_000_000))  # copied once, yours again
    with frames.loan((1080, 1920, 3), "uint8") as frame:  # written where it is read
        frame[:] = 7
    with frames.born_here():
        ones = np.ones((1000, 1000))  # in the channel's memory
    frames.move(ones)  # no copy: `ones` is read-only now

    for what in ("sent", "lent", "moved"):
        print(f"{what:>8}: the child sums {int(sums.receive().array[0])}")
    frames.close()
    process.join()


def slices(array: np.ndarray[Any, Any], seed: int) -> Iterator[tuple[Any, Any]]:
    """Parts of `array`, and the numbers that belong there: each byte is told from its neighbours."""
    for at in range(0, len(array), STEP):
        part = array[at : at + STEP]
        yield part, PATTERN[: len(part)] + np.uint64((at * FACTOR + seed) % (1 << 64))


def checker(reader: gantry.PipeReader, answers: gantry.PipeWriter) -> None:
    """Says of each message whether all of its bytes are as they were sent."""
    with answers:
        for message in reader:
            good = all((part == right).all() for part, right in slices(message.array, message.user))
            del message
            answers.send(np.array([good]))


def large(nbytes: int) -> None:
    """The same by messages of `nbytes`."""
    reader, numbers = gantry.pipe(slots=2)
    verdicts, answers = gantry.pipe()
    process = multiprocessing.get_context("spawn").Process(target=checker, args=(reader, answers))
    process.start()

    def fill(array: np.ndarray[Any, Any], seed: int) -> None:
        for part, right in slices(array, seed):
            part[:] = right

    count = nbytes // 8
    with numbers:  # an exception ends the child, too
        with numbers.born_here():
            array = np.empty(count, "u8")
        fill(array, 1)
        numbers.send(array, user=1)
        good = [verdicts.receive().array[0]]
        with numbers.loan(count, "u8", user=2) as loan:
            fill(loan, 2)
        del loan  # its memory is used again
        good.append(verdicts.receive().array[0])
        fill(array, 3)
        numbers.move(array, user=3)
        good.append(verdicts.receive().array[0])
    process.join()
    if not all(good):
        raise SystemExit(f"large: bytes differ: {good}")
    print(f"   large: three messages of {count * 8} bytes, each byte as it was sent")


def size_of(text: str) -> int:
    digits, unit = (text[:-1], text[-1]) if text[-1:] in ("K", "M", "G") else (text, "")
    if not digits.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no size: say 64M, 2G or a number of bytes")
    size = int(digits) << {"K": 10, "M": 20, "G": 30}.get(unit, 0)
    if size < 1 << 15:
        raise argparse.ArgumentTypeError(
            f"'{text}' is below 32K, from which on arrays are born in a channel's memory"
        )
    return size


def views() -> None:
    with gantry.Producer("views") as out, gantry.Consumer("views", timeout=5) as consumer:
        out.wait_for_consumers()
        out.send(np.arange(12, dtype="f4").reshape(3, 4), user=42)
        message = consumer.receive(timeout=5)
        array = message.array  # read-only, where the sender wrote
        mine = message.private()  # writable; the pages that are written are copied
        mine[0] = -1
        print("   views:", array.dtype, array.shape, array[0, 1], mine[0, 1], message.user)
        print("  dlpack:", np.from_dlpack(message).sum(), memoryview(message.data).nbytes, "bytes")
        try:
            import torch

            print("   torch:", torch.sum(message.torch()), message.torch(private=True).add_(1)[1, 1])
        except ImportError:
            print("   torch: not installed")
        try:
            out.send({"a": 1})
        except gantry.InvalidArgument as error:
            print("   error:", error.what, "|", error.why, "|", error.hint)
        del message, array, mine  # the slot is free with the last of them
        out.drop()


def objects() -> None:
    with (
        gantry.Producer("objects", pickles=True) as out,
        gantry.Consumer("objects", pickles=True, timeout=5) as consumer,
    ):
        out.wait_for_consumers()
        out.send({"image": np.zeros((512, 512)), "label": "cat"})
        message = consumer.receive()
        value = message.object()  # the image lies in a segment of its own
        print(" objects:", value["label"], value["image"].shape, len(message), "segments")
        out.drop()


def looks() -> None:
    with gantry.Producer("looks") as out, gantry.Consumer("looks", timeout=5) as consumer:
        out.wait_for_consumers()
        out.send(np.arange(500))  # a small array: receive() would copy it, look() does not
        print("   looks:", consumer.look(lambda message: int(message.array.sum())))
        out.drop()


async def with_asyncio() -> None:
    out = gantry.Producer("async", slots=2)
    consumer = gantry.Consumer("async", timeout=5)
    out.wait_for_consumers()

    async def send() -> None:
        for n in range(5):
            await out.send_async(np.full(100_000, n), timeout=5)
        await asyncio.to_thread(out.close)

    sending = asyncio.create_task(send())
    print("   async:", [int(message.array[0]) async for message in consumer])
    await sending
    consumer.close()


def calls() -> None:
    server = rpc.Server("doubler")

    def serve() -> None:
        try:
            server.serve(lambda request: request.array * 2)
        except gantry.InvalidArgument:
            pass  # closed, below

    thread = threading.Thread(target=serve)
    thread.start()
    with rpc.Client("doubler", timeout=5) as client:
        print("   calls:", client.call(np.arange(4), timeout=5).array)
    server.close()
    thread.join()


def many_senders() -> None:
    with gantry.Inbox("inbox") as inbox:
        senders = [gantry.Producer.connect("inbox", timeout=5) for _ in range(3)]
        for n, sender in enumerate(senders):
            sender.send(b"from %d" % n)
        got: list[Any] = sorted(bytes(inbox.receive(timeout=5)) for _ in senders)
        print("   inbox:", got)
        for sender in senders:
            sender.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=size_of, default="64M", help="of a large message")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GANTRY_DIR"] = folder  # so that the tour meets nobody
        to_a_child()
        large(given.bytes)
        views()
        objects()
        looks()
        asyncio.run(with_asyncio())
        calls()
        many_senders()
