"""Other processes: killed, forked, spawned; ends that are given to children."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from multiprocessing import forkserver

import numpy
from support import FORK, FORKSERVER, SPAWN, Case, pattern

import gantry


def send_and_wait(name: str) -> None:
    producer = gantry.Producer(name)
    producer.wait_for_consumers()
    with producer.loan(300_000) as loan:
        loan[:] = 3
    producer.send(b"last")
    time.sleep(60)


def receive_and_wait(name: str) -> None:
    consumer = gantry.Consumer(name)
    held = [consumer.receive()]
    held[0].private()[0] = 1
    time.sleep(60)


def sum_of_all(reader: gantry.PipeReader, answers: gantry.PipeWriter) -> None:
    with answers:
        for message in reader:
            answers.send(message.array.sum(keepdims=True))
            del message


def use_inherited(producer: gantry.Producer, message: gantry.Message, consumer: gantry.Consumer) -> None:
    for use in (lambda: producer.send(b"x"), lambda: consumer.receive(1), producer.fileno):
        try:
            use()
            os._exit(3)
        except gantry.Unsupported as error:
            if "fork" not in str(error):
                os._exit(4)
    producer.drop()
    consumer.close()
    del message
    other = gantry.Producer(f"of-child-{os.getpid()}")  # a runtime of its own
    other.drop()
    os._exit(0)


def forget(views: list[object]) -> None:
    good = views[0].tobytes() == pattern(100_000).tobytes()  # type: ignore[attr-defined]
    views.clear()
    os._exit(not good)


class Processes(Case):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        forkserver.ensure_running()  # keeps a descriptor

    def test_a_killed_sender(self) -> None:
        child = self.start(send_and_wait, self.name)
        consumer = gantry.Consumer(self.name, timeout=10)
        self.addCleanup(consumer.close)
        array = consumer.receive(10).array
        self.assertEqual(bytes(consumer.receive(10)), b"last")
        os.kill(child.pid, signal.SIGKILL)
        with self.assertRaises(BrokenPipeError):
            consumer.receive(10)
        self.assertEqual(int(array.sum()), 900_000)
        again = self.start(send_and_wait, self.name)
        consumer.rejoin(10)
        self.assertEqual(int(consumer.receive(10).array[0]), 3)
        os.kill(again.pid, signal.SIGKILL)

    def test_a_killed_receiver(self) -> None:
        child = self.start(receive_and_wait, self.name)
        producer = gantry.Producer(self.name, slots=1)
        self.addCleanup(producer.drop)
        producer.wait_for_consumers(timeout=10)
        producer.send(pattern(200_000))
        with self.assertRaises(gantry.TimedOut):
            producer.send(pattern(200_000), timeout=0.2)
        os.kill(child.pid, signal.SIGKILL)
        with self.assertRaises(BrokenPipeError):
            for _ in range(3):
                producer.send(pattern(200_000), timeout=10)

    def test_ends_opened_before_fork(self) -> None:
        producer, consumer = self.pair()
        producer.send(pattern(100_000))
        message = consumer.receive(5)
        child = self.start(use_inherited, producer, message, consumer)
        child.join(20)
        self.assertEqual(child.exitcode, 0)
        self.assertEqual(bytes(message), pattern(100_000).tobytes())
        producer.send(b"goes on")
        self.assertEqual(bytes(consumer.receive(5)), b"goes on")

    def test_a_child_gives_nothing_back(self) -> None:
        producer, consumer = self.pair(slots=1)
        producer.send(pattern(100_000))
        view = consumer.receive(5).array
        child = self.start(forget, [view, view[5:]])
        child.join(20)
        self.assertEqual(child.exitcode, 0)
        with self.assertRaises(gantry.TimedOut):
            producer.send(bytes(100_000), timeout=0)  # the slot is this process's view's
        self.assertEqual(view.tobytes(), pattern(100_000).tobytes())
        del view
        producer.send(bytes(100_000), timeout=5)

    def pipes(self, context: object) -> None:
        reader, writer = gantry.pipe()
        back, answers = gantry.pipe()
        self.start(sum_of_all, reader, answers, context=context)
        for size in (1, 1000, 1_000_000):
            writer.send(numpy.arange(size))
            self.assertEqual(int(back.receive(20).array[0]), size * (size - 1) // 2)
        writer.close(20)
        with self.assertRaises(gantry.Closed):
            back.receive(20)
        back.close()

    def test_pipes_by_fork(self) -> None:
        self.pipes(FORK)

    def test_pipes_by_spawn(self) -> None:
        self.pipes(SPAWN)

    def test_pipes_by_forkserver(self) -> None:
        self.pipes(FORKSERVER)

    def test_a_child_without_the_package_loaded_before(self) -> None:
        program = f"import gantry; print(gantry.Consumer('{self.name}').receive(10).array.sum())"
        producer = gantry.Producer(self.name)
        self.addCleanup(producer.drop)
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
            producer.wait_for_consumers(timeout=10)
            producer.send(numpy.arange(10))
            self.assertEqual(child.communicate(timeout=20)[0], b"45\n")

    @unittest.skipUnless(os.environ.get("GANTRY_PROGRAM"), "GANTRY_PROGRAM is not set")
    def test_stages_of_gantry_run(self) -> None:
        stage = "import gantry\n"
        with tempfile.TemporaryDirectory() as folder:
            first = os.path.join(folder, "first.py")
            last = os.path.join(folder, "last.py")
            with open(first, "w") as file:
                file.write(stage + "with gantry.stage_output('frames') as out:\n"
                           "    for n in range(5): out.send(bytes([n]) * 100_000)\n")  # fmt: skip
            with open(last, "w") as file:
                file.write(stage + "for m in gantry.stage_input('frames'):\n"
                           "    print(len(m.data), m.data[0], m.data[-1], flush=True)\n")  # fmt: skip
            toml = os.path.join(folder, "job.toml")
            with open(toml, "w") as file:
                file.write(f"""
[stages.first]
command = ["{sys.executable}", "{first}"]
[stages.last]
command = ["{sys.executable}", "{last}"]
[channels.frames]
from = "first"
to = "last"
""")
            done = subprocess.run([os.environ["GANTRY_PROGRAM"], "run", toml],
                                  capture_output=True, timeout=60, text=True)  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            for n in range(5):
                self.assertIn(f"100000 {n} {n}", done.stderr)
