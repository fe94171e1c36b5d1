"""Ends of pipe() open within the timeout of their first use, and go on after it was interrupted."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable

from support import Case, pattern

import gantry


class Pipes(Case):
    def ends(self) -> tuple[gantry.PipeReader, gantry.PipeWriter]:
        reader, writer = gantry.pipe()
        self.addCleanup(reader.close)
        self.addCleanup(writer.drop)
        return reader, writer

    def interrupt(self, use: Callable[[], object]) -> None:
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            use()
            timer.join()
        timer.join()

    def exchange(self, reader: gantry.PipeReader, writer: gantry.PipeWriter) -> None:
        thread = threading.Thread(target=writer.send, args=(pattern(100_000),))
        thread.start()
        self.assertEqual(bytes(reader.receive(10)), pattern(100_000).tobytes())
        thread.join()

    def test_a_first_use_that_is_interrupted(self) -> None:
        reader, writer = self.ends()
        self.interrupt(reader.receive)
        self.interrupt(reader.receive)
        self.exchange(reader, writer)
        reader, writer = self.ends()
        self.interrupt(lambda: writer.send(b""))
        self.interrupt(lambda: writer.send(b""))
        self.exchange(reader, writer)

    def test_a_first_use_has_its_timeout(self) -> None:
        reader, writer = self.ends()
        uses: list[Callable[[], object]] = [
            lambda: reader.receive(0.02), lambda: reader.receive(0),
            lambda: reader.receive_into(bytearray(8), 0.02),
            lambda: asyncio.run(reader.receive_async(0.02)),
        ]  # fmt: skip
        for use in uses:
            with self.assertRaises(gantry.TimedOut):
                use()

        def loan() -> None:
            with writer.loan(8, timeout=0.02):
                pass

        uses = [
            lambda: writer.send(b"", timeout=0.02), lambda: writer.send_parts(b"", timeout=0.02),
            lambda: asyncio.run(writer.send_async(b"", timeout=0.02)), loan,
            lambda: writer.wait_for_consumers(timeout=0.02), lambda: writer.close(0.02),
        ]  # fmt: skip
        for use in uses:
            with self.assertRaises(gantry.TimedOut):
                use()
        self.assertIn("not opened", repr(reader))
        self.exchange(reader, writer)
        self.assertIn("open", repr(reader))

    def test_a_first_use_by_a_task_leaves_the_loop_alone(self) -> None:
        reader, writer = self.ends()

        async def main() -> bytes:
            receiving = asyncio.create_task(reader.receive_async(10))
            turns = 0
            while turns < 5:  # the loop goes on
                await asyncio.sleep(0.001)
                turns += 1
            self.assertFalse(receiving.done())
            await writer.send_async(b"first", timeout=10)
            return bytes(await receiving)

        self.assertEqual(asyncio.run(main()), b"first")

    def test_ends_that_are_closed_before_they_are_used(self) -> None:
        reader, writer = self.ends()
        reader.close()
        writer.drop()
        for use in (lambda: reader.receive(5), lambda: writer.send(b"", timeout=5)):
            with self.assertRaisesRegex(gantry.InvalidArgument, "closed"):
                use()
        writer.close()
        reader, writer = self.ends()
        with self.assertRaisesRegex(gantry.InvalidArgument, "closed"):
            timer = threading.Timer(0.05, reader.close)
            timer.start()
            reader.receive(20)
        timer.join()

    def test_a_pipe_without_a_message(self) -> None:
        reader, writer = self.ends()
        thread = threading.Thread(target=writer.close)
        thread.start()
        self.assertEqual(list(reader), [])
        thread.join()
