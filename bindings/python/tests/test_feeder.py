"""A queue's feeder that can have no thread: put() says so, and the queue goes on."""

import threading
from unittest import mock

from support import Case, pattern

import gantry


class Feeders(Case):
    def test_put_raises_and_the_queue_goes_on(self) -> None:
        for maxsize in (0, 200):
            with self.subTest(maxsize=maxsize):
                queue = gantry.Queue(maxsize)
                put = 0
                with mock.patch.object(
                    threading.Thread, "start", side_effect=RuntimeError("can't start new thread")
                ), self.assertRaisesRegex(RuntimeError, "can't start"):
                    while put < 150:  # more than are on their way without a feeder
                        queue.put(pattern(100_000, seed=put))
                        put += 1
                self.get(queue, put)
                more = put + 1  # for the last one the feeder is needed again
                for number in range(more):
                    queue.put(pattern(100_000, seed=number), timeout=10)
                self.get(queue, more)
                self.assertTrue(queue.empty())
                queue.close()
                queue.join_thread()

    def get(self, queue: gantry.Queue, count: int) -> None:
        for number in range(count):
            got = queue.get(timeout=10).tobytes()
            self.assertEqual(got, pattern(100_000, seed=number).tobytes())
