"""Without NumPy: nothing imports it unless arrays are asked for. For any Python from 3.11 on."""

import array
import os
import shutil
import signal
import sys
import tempfile
import threading
import unittest

if "GANTRY_DIR" not in os.environ:
    os.environ["GANTRY_DIR"] = tempfile.mkdtemp()
    unittest.addModuleCleanup(shutil.rmtree, os.environ["GANTRY_DIR"])

import gantry  # noqa: E402


class Plain(unittest.TestCase):
    def test_everything_but_ndarrays(self) -> None:
        before = "numpy" in sys.modules
        with (
            gantry.Producer("plain", pickles=True, slots=2) as producer,
            gantry.Consumer("plain", pickles=True, timeout=5) as consumer,
        ):
            producer.wait_for_consumers(timeout=5)
            for turn in range(200):
                numbers = array.array("d", range(turn * 50))
                producer.send(numbers)
                message = consumer.receive(5)
                self.assertEqual(bytes(message), numbers.tobytes())
                tensor = message._core.segment(0, False)
                with memoryview(tensor) as view:  # type: ignore[arg-type]
                    self.assertEqual((view.format, view.shape), ("d", (turn * 50,)))
                    self.assertEqual(view.tolist(), numbers.tolist())
                private = memoryview(message._core.view(0))  # type: ignore[arg-type]
                if turn:
                    private[0] = 9.0
                    self.assertEqual((private[0], message.data[0]), (9.0, 0))
                private.release()
                del message, tensor, view, private
            producer.send({"a": [1, "b"], "c": bytearray(10_000)})
            self.assertEqual(consumer.receive(5).object(), {"a": [1, "b"], "c": bytearray(10_000)})
            timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                consumer.receive(10)
            timer.join()
            with self.assertRaises(gantry.InvalidArgument):
                gantry.Producer("plain2").send("text")
            self.assertEqual(len(gantry.runtime.shared().channels()), 1)
            producer.drop()
        self.assertEqual("numpy" in sys.modules, before)


if __name__ == "__main__":
    unittest.main()
