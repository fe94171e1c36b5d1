"""What a hostile sender writes of its message is refused with a hint, and ends no receiver."""

from __future__ import annotations

import ctypes
import importlib.util
import random
import struct
from typing import Any

import numpy
from support import Case, pattern

import gantry

SHAPE = (10_007, 13)  # found again in memory by these
TENSOR = struct.Struct("<IBBHQ8q8q")  # slab, type, dimensions, shape, strides: docs/formats/channel.md
NO_TENSOR = (1 << 64) - 1


def entry() -> int:
    """Where this process, as a sender, has the description of an array of SHAPE."""
    sought = struct.pack("<Q2q", 2, *SHAPE)
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as memory:
        for line in maps:
            if " rw-s " not in line or "memfd" not in line:
                continue
            begin, end = (int(word, 16) for word in line.split()[0].split("-"))
            for chunk in range(begin, end, 1 << 20):  # or memory that nobody wrote would be made
                memory.seek(chunk)
                place = memory.read(min(end - chunk, (1 << 20) + 200)).find(sought)
                if place >= 0:
                    return chunk + place - 8
    raise AssertionError("no description in this process's memory")


class Hostile(Case):
    def forge(self, fields: dict[str, Any]) -> gantry.Message | None:
        """What the receiver gets when the sender changes the description of its array."""
        name = f"forged-{random.getrandbits(64)}"
        producer = gantry.Producer(name)
        consumer = gantry.Consumer(name, timeout=5)
        try:
            producer.wait_for_consumers(timeout=5)
            producer.send(pattern(SHAPE[0] * SHAPE[1], "f4").reshape(SHAPE))
            place = entry()
            words = list(TENSOR.unpack(ctypes.string_at(place, TENSOR.size)))
            words[1:4] = fields.get("type", words[1:4])
            words[4] = fields.get("dimensions", words[4])
            shape, strides = fields.get("shape", words[5:7]), fields.get("strides", words[13:15])
            words[5 : 5 + len(shape)] = shape
            words[13 : 13 + len(strides)] = strides
            ctypes.memmove(place, TENSOR.pack(*words), TENSOR.size)
            return consumer.receive(5)
        except gantry.PeerMisbehaved as error:
            self.assertTrue(error.hint, fields)
            return None
        finally:
            producer.drop()
            consumer.close()

    def look_in_every_way(self, message: gantry.Message) -> int:
        """Every byte in every way; how many of them were refused. None ends the process."""
        ways: list[Any] = [
            lambda m: m.array.copy(), lambda m: m.private().sum(), lambda m: m.object(),
            lambda m: memoryview(m._core.segment(0, False)).tobytes(), lambda m: bytes(m),
            lambda m: numpy.from_dlpack(m).copy(), repr,
        ]  # fmt: skip
        if importlib.util.find_spec("torch") is not None:
            ways.append(lambda m: m.torch(private=True).clone())
        refused = 0
        for way in ways:
            try:
                way(message)
            except gantry.Error as error:
                self.assertTrue(error.hint)
                refused += 1
            except (BufferError, RuntimeError):  # of NumPy's and torch's DLPack: a type they lack
                refused += 1
        self.assertEqual(bytes(message), pattern(SHAPE[0] * SHAPE[1], "f4").tobytes())
        return refused

    def test_the_forgery_is_one(self) -> None:
        message = self.forge({"shape": (13, 10_007), "strides": (10_007, 1)})
        assert message is not None
        self.assertEqual(message.array.shape, (13, 10_007))
        self.assertEqual(self.look_in_every_way(message), 0)

    def test_descriptions_that_do_not_fit(self) -> None:
        huge = (1 << 63) - 1
        bad: list[dict[str, Any]] = [
            {"shape": (10_008, 13)}, {"shape": (-1, 13)}, {"shape": (huge, huge)},
            {"strides": (14, 1)}, {"strides": (-13, 1)}, {"strides": (0, 0)},
            {"strides": (huge, 1)}, {"type": (2, 64, 1)}, {"type": (2, 32, 2)},
            {"type": (2, 0, 1)}, {"type": (2, 32, 0)}, {"type": (2, 255, 65535)},
            {"dimensions": 9}, {"dimensions": 1 << 63}, {"shape": (1, 1 << 62)},
        ]  # fmt: skip
        for fields in bad:
            with self.subTest(**fields):
                self.assertIsNone(self.forge(fields))

    def test_descriptions_whose_copy_is_too_large(self) -> None:
        for fields in ({"dimensions": 8, "shape": (4096,) * 8, "strides": (1,) * 8},
                       {"shape": (1 << 14, 1 << 14), "strides": (1, 1)},
                       {"dimensions": 6, "shape": (2048,) * 6, "strides": (1,) * 6},
                       {"shape": (1 << 62, 0), "strides": (1, 1)}, {"shape": (0, 13), "strides": (1 << 62, 1)}):  # fmt: skip
            with self.subTest(**fields):
                message = self.forge(fields)
                assert message is not None
                self.assertGreaterEqual(self.look_in_every_way(message), 4)

    def test_types_that_nobody_has(self) -> None:
        for kind in ((9, 32, 1), (0xEE, 32, 1), (1, 1, 1), (1, 7, 3), (2, 16, 2), (4, 16, 2)):
            with self.subTest(kind):
                message = self.forge({"type": kind})
                assert message is not None
                self.assertGreaterEqual(self.look_in_every_way(message), 3)

    def test_random_descriptions(self) -> None:
        chance = random.Random(3)
        edges = [0, 1, 2, 13, 10_007, 1 << 31, 1 << 32, 1 << 61, (1 << 63) - 1, -1, -(1 << 63)]
        for _ in range(40):
            count = chance.randrange(9)
            message = self.forge({
                "type": (chance.choice([0, 1, 2, 4, 5, 6, 77]), chance.choice([1, 8, 32, 64]), 1),
                "dimensions": count,
                "shape": [chance.choice(edges) for _ in range(count)],
                "strides": [chance.choice(edges) for _ in range(count)],
            })  # fmt: skip
            if message is not None:
                self.look_in_every_way(message)

    def test_pickles(self) -> None:
        """A stream is not loaded unless the receiver said so."""
        producer, consumer = self.pair()
        stream = b"cbuiltins\nexit\n(I3\ntR."  # ends the process that loads it
        producer.send(stream, type=gantry.pickles.TYPE)
        message = consumer.receive(5)
        with self.assertRaises(PermissionError) as caught:
            message.object()
        assert isinstance(caught.exception, gantry.Error)
        self.assertIn("pickles=True", caught.exception.hint)
        self.assertEqual(bytes(message), stream)
        producer.drop()
        consumer.close()
