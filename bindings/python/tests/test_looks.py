"""look(): a message where it lies, and what may happen meanwhile."""

import os
import threading

import numpy
from support import Case, pattern

import gantry

SIZES = (0, 10, 1000, 4096, 100_000)


class Looks(Case):
    def expect_over(self, consumer: gantry.Consumer, producer: gantry.Producer) -> None:
        """Nothing is looked at any more."""
        producer.send(b"next")
        self.assertEqual(consumer.look(bytes, timeout=5), b"next")

    def test_the_function_sees_what_was_sent(self) -> None:
        producer, consumer = self.pair()
        for size in SIZES:
            sent = pattern(size, seed=size)
            producer.send(sent, user=size)
            got = consumer.look(lambda m: (bytes(m.data), m.user, m.nbytes, len(m)), timeout=5)
            self.assertEqual(got, (sent.tobytes(), size, size, 1))
        floats = pattern(24, "f4").reshape(2, 3, 4)
        producer.send(floats)
        self.assertEqual(consumer.look(lambda m: m.array.tolist(), 5), floats.tolist())
        self.assertEqual(consumer._core.held, 0)

    def test_the_bytes_are_not_copied(self) -> None:
        producer, consumer = self.pair()
        places = []
        for number in range(150):  # 72 places, in turn
            producer.send(pattern(1000, seed=number))
            place = consumer.look(lambda m: m.array.__array_interface__["data"][0], 5)
            places.append(place)
        self.assertEqual(places[0], places[72])
        self.assertNotEqual(places[0], places[1])

    def test_message_and_views_end_with_the_look(self) -> None:
        producer, consumer = self.pair()
        for size in SIZES:
            producer.send(pattern(size))
            kept: list[gantry.Message] = []
            views: list[memoryview] = []

            def keep(
                message: gantry.Message,
                kept: list[gantry.Message] = kept,
                views: list[memoryview] = views,
            ) -> None:
                kept.append(message)
                views.extend((message.data, message.segment(0)))
                self.assertTrue(views[0].readonly)

            consumer.look(keep, timeout=5)
            for view in views:
                with self.assertRaisesRegex(ValueError, "released"):
                    view.tobytes()
            for use in (lambda m: m.data, lambda m: m.array, lambda m: m.private(), bytes,
                        lambda m: m.table(), lambda m: m.object()):  # fmt: skip
                with self.assertRaisesRegex(gantry.InvalidArgument, "look"):
                    use(kept[0])
            with self.assertRaises(gantry.InvalidArgument):
                producer.send(kept[0])
            self.expect_over(consumer, producer)

    def test_an_array_that_is_kept_is_refused_and_stays_valid(self) -> None:
        producer, consumer = self.pair()
        for keep in (lambda m: m.array, lambda m: m.data[3:], lambda m: numpy.asarray(m.data),
                     lambda m: numpy.from_dlpack(m), lambda m: memoryview(m.data)):  # fmt: skip
            for size in (10, 1000, 100_000):
                sent = pattern(size)
                producer.send(sent)
                kept = []
                with self.assertRaisesRegex(gantry.InvalidArgument, "kept"):
                    consumer.look(lambda m, keep=keep, kept=kept: kept.append(keep(m)), timeout=5)
                for take in (lambda: consumer.receive(5), lambda: consumer.look(bytes, 5),
                             lambda: consumer.receive_into(bytearray(9), 5),
                             lambda: consumer.rejoin(5)):  # fmt: skip
                    with self.assertRaisesRegex(gantry.Busy, "looked at"):
                        take()
                self.assertTrue(sent.tobytes().endswith(bytes(kept[0])))
                kept.clear()
                self.expect_over(consumer, producer)

    def test_what_is_kept_outlives_its_end(self) -> None:
        with gantry.Producer(self.name, consumers=6) as producer:
            consumer = gantry.Consumer(self.name)
            sent = pattern(1000)
            producer.send(sent)
            kept = []
            with self.assertRaises(gantry.InvalidArgument):
                consumer.look(lambda m: kept.append(m.array), timeout=5)
            consumer.close()
            del consumer
            with gantry.Consumer(self.name) as other:
                for number in range(150):
                    producer.send(pattern(3000, seed=number))
                    other.receive(5)
                self.assertEqual(kept[0].tobytes(), sent.tobytes())
                kept.clear()
            producer.drop()

    def test_an_exception_goes_on_and_the_message_is_given_back(self) -> None:
        producer, consumer = self.pair()

        def fail(message: gantry.Message) -> None:
            raise KeyboardInterrupt(message.nbytes)

        for size in SIZES:
            producer.send(pattern(size))
            with self.assertRaisesRegex(KeyboardInterrupt, str(size)):
                consumer.look(fail, timeout=5)
            self.expect_over(consumer, producer)

    def test_within_the_function(self) -> None:
        producer, consumer = self.pair()
        for size in SIZES:
            sent = pattern(size)
            producer.send(sent)

            def use(message: gantry.Message, sent: numpy.ndarray = sent) -> None:
                with self.assertRaisesRegex(gantry.Busy, "looked at"):
                    consumer.receive(5)
                with self.assertRaises(gantry.Busy):
                    consumer.look(bytes, 5)
                producer.send(b"sent within")
                with self.assertRaises(gantry.InvalidArgument):
                    producer.send(message)
                self.assertEqual(bytes(message), sent.tobytes())

            consumer.look(use, timeout=5)
            self.assertEqual(bytes(consumer.receive(5)), b"sent within")

    def test_the_function_may_close_the_end(self) -> None:
        for size in SIZES:
            with gantry.Producer(f"{self.name}-{size}") as producer:
                consumer = gantry.Consumer(f"{self.name}-{size}")
                producer.send(pattern(size))

                def close(
                    message: gantry.Message, consumer: gantry.Consumer = consumer, size: int = size
                ) -> bytes:
                    consumer.close()
                    return bytes(message)

                self.assertEqual(consumer.look(close, timeout=5), pattern(size).tobytes())
                with self.assertRaisesRegex(gantry.InvalidArgument, "closed"):
                    consumer.look(bytes, timeout=0)
                producer.drop()

    def test_a_child_that_forks_within_changes_nothing(self) -> None:
        producer, consumer = self.pair()
        sent = pattern(1000)
        producer.send(sent)

        def fork(message: gantry.Message) -> int:
            child = os.fork()
            if child == 0 and bytes(message) != sent.tobytes():
                os._exit(1)
            return child

        child = consumer.look(fork, timeout=5)
        if child == 0:
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.expect_over(consumer, producer)

    def test_another_thread_may_drop_what_is_kept(self) -> None:
        producer, consumer = self.pair()
        for _ in range(100):
            producer.send(pattern(1000))
            kept = []
            with self.assertRaises(gantry.InvalidArgument):
                consumer.look(lambda m, kept=kept: kept.append(m.array), timeout=5)
            dropping = threading.Thread(target=kept.clear)
            dropping.start()
            for _ in range(1000):  # an end that is used and one that is not
                try:
                    consumer.receive(0)
                except (gantry.Busy, gantry.TimedOut):
                    continue
            dropping.join()
            self.expect_over(consumer, producer)

    def test_a_look_waits_as_receive_does(self) -> None:
        producer, consumer = self.pair()
        with self.assertRaises(gantry.TimedOut):
            consumer.look(bytes, timeout=0)
        with self.assertRaises(gantry.TimedOut):
            consumer.look(bytes, timeout=0.001)
        sender = threading.Thread(target=lambda: producer.send(b"late"))
        sender.start()
        self.assertEqual(consumer.look(bytes), b"late")
        sender.join()
        with gantry.Inbox(self.name + "-in") as inbox, self.assertRaises(gantry.Unsupported):
            inbox.look(bytes, timeout=0)
        with self.assertRaises(TypeError):
            consumer.look(bytes, timeout="soon")
