"""What a hostile sender says of a table is refused with a hint, or is a table that can be believed.

A description is bytes of the first segment (docs/formats/table.md), so that a sender who writes
them itself sends any bytes: no forgery in memory is needed. Whatever is handed out is read whole
by the strict reader, as a consumer that believes every word.
"""

from __future__ import annotations

import random
import struct

import arrow_structs as arrow
import numpy
from arrow_described import HEAD, NODE, PLACE, Described
from arrow_structs import Column, Export, Imported, Zoo
from support import Case

import gantry

EDGES = [0, 1, 2, 3, 7, 8, 63, 64, 65, 4095, 65536, 65537, (1 << 31) - 1, 1 << 31, (1 << 32) - 1,
         1 << 32, 1 << 48, (1 << 48) + 1, 1 << 62, (1 << 63) - 1]  # fmt: skip


class Hostile(Case):
    def setUp(self) -> None:
        super().setUp()
        self.producer, self.consumer = self.pair()
        self.accepted = self.refused = 0
        self.why = ""

    def tearDown(self) -> None:
        del self.producer, self.consumer
        super().tearDown()

    def described(self, column: Column) -> Described:
        self.producer.send(Export(column), timeout=5)
        message = self.consumer.receive(5)
        return Described([bytes(message.segment(index)) for index in range(len(message))])

    def look(self, segments: list[bytearray]) -> Column | None:
        """What a receiver makes of it; None: it is refused."""
        self.producer.send_parts(*segments, timeout=5)
        message = self.consumer.receive(5)
        try:
            table = message.table()
        except gantry.Error as error:
            self.assertTrue(error.hint, error)
            self.why = error.why
            self.refused += 1
            return None
        self.accepted += 1
        self.look_at_columns(table)
        imported = Imported(table)
        del table, message
        column = imported.read()  # and checks it
        imported.release()
        return column

    def look_at_columns(self, table: gantry.tables.Table) -> None:
        for index in range(len(table.names)):
            if len(table) > 1 << 20:  # rows that take no memory
                break
            for way in (table.column, table.valid):
                try:
                    way(index).sum() if way is table.valid else way(index).tobytes()
                except gantry.InvalidArgument as error:
                    self.assertTrue(error.hint)

    def small(self) -> Column:
        """Nodes: 0 struct, 1 text, 2 list, 3 its items, 4 index, 5 its words, 6 fixed list, 7 items,
        8 map, 9 pairs, 10 keys, 11 values. Buffers: 0; 1 2 3; 4 5; 6 7; 8 9; 10 11 12; 13; 14 15;
        16 17; 18; 19 20; 21 22."""
        rows = 1100

        def offsets(step: int) -> bytes:
            return numpy.arange(0, step * (rows + 1), step, "i4").tobytes()

        def integers(count: int) -> Column:
            return Column("i", count, (bytes(-(-count // 8)), bytes(4 * count)), count)

        words = Column("z", 3, (b"\7", struct.pack("4i", 0, 1, 2, 6), b"abcdef"))
        indices = (numpy.arange(rows) % 3).astype("i1").tobytes()
        pairs = Column("+s", rows, (None,), children=(integers(rows), integers(rows)))
        return Column("+s", rows, (None,), metadata=struct.pack("=ii3si2s", 1, 3, b"key", 2, b"it"), children=(
            Column("u", rows, (b"\xff" * 138, offsets(4), bytes(4 * rows))),
            Column("+l", rows, (None, offsets(2)), children=(integers(2 * rows),)),
            Column("c", rows, (b"\xff" * 138, indices), dictionary=words),
            Column("+w:2", rows, (None,), children=(integers(2 * rows),)),
            Column("+m", rows, (None, offsets(1)), children=(pairs,))))  # fmt: skip

    def test_what_was_sent_is_accepted(self) -> None:
        column = self.small()
        got = self.look(self.described(column).segments)
        self.assertEqual(arrow.difference(got, column), "")

    def test_each_lie_is_refused(self) -> None:
        good = self.described(self.small())

        def made() -> Described:
            return Described([bytes(it) for it in good.segments])

        last = struct.pack("<i", 1 << 30)
        none, rows, size = (1 << 32) - 1, 1100, len(good.segments[0])
        lies: dict[str, Described] = {
            "no nodes": made().set_head(nodes=0),
            "too many nodes": made().set_head(nodes=65537),
            "a node less": made().set_head(nodes=11),
            "more nodes than bytes": made().set_head(nodes=65536),
            "more buffers than bytes": made().set_head(buffers=none),
            "more text than bytes": made().set_head(text_bytes=none),
            "no text": made().set_head(text_bytes=0),
            "no segments": made().set_head(segments=0),
            "a segment more": made().set_head(segments=len(good.segments) + 1),
            "text without an end": made().set_text(good.text_bytes - 1, b"x"),
            "a negative length": made().set_node(1, length=-1),
            "a length that wraps": made().set_node(1, length=(1 << 63) - 1, offset=1),
            "a negative offset": made().set_node(1, offset=-1),
            "an offset": made().set_node(1, offset=8),
            "rows that columns lack": made().set_node(0, length=rows + 1),
            "an offset that columns lack": made().set_node(0, offset=1),
            "nulls below -1": made().set_node(1, null_count=-2),
            "more nulls than rows": made().set_node(1, null_count=rows + 1),
            "other nulls": made().set_node(1, null_count=1),
            "nulls without a bitmap": made().set_node(2, null_count=1),
            "a format outside": made().set_node(1, format=good.text_bytes),
            "a name outside": made().set_node(1, name=good.text_bytes),
            "metadata outside": made().set_node(0, metadata=good.text_bytes - 8),
            "metadata cut off": made().set_node(0, metadata_bytes=12),
            "metadata of one byte": made().set_node(0, metadata_bytes=1),
            "too many pairs": made().put_metadata(struct.pack("<i", 2)),
            "pairs below 0": made().put_metadata(struct.pack("<i", -1)),
            "a key that wraps": made().put_metadata(struct.pack("<ii", 1, (1 << 31) - 1)),
            "a child less": made().set_node(0, children=4),
            "a child more": made().set_node(0, children=6),
            "children of children": made().set_node(0, children=none),
            "a list without a child": made().set_node(2, children=0),
            "text with a child": made().set_node(1, children=1),
            "text with a dictionary": made().set_node(1, has_dictionary=1),
            "two dictionaries": made().set_node(4, has_dictionary=2),
            "an index without one": made().set_node(4, has_dictionary=0),
            "items that are missing": made().set_node(3, length=2 * rows - 1),
            "items of fixed lists": made().set_node(7, length=2 * rows - 1),
            "words that are missing": made().set_node(5, length=2),
            "fixed lists that wrap": made().set_format(6, b"+w:2147483647"),
            "an unknown format": made().set_format(1, b"vu"),
            "a number that wraps": made().set_format(1, b"w:99999999999999999999"),
            "a map of no pairs": made().set_node(9, children=1),
            "a map of integers": made().set_format(2, b"+m"),
            "a segment outside": made().set_place(2, 64, 0, 0, 4404),
            "a buffer outside": made().set_place(2, 0, 0, size, 4404),
            "a buffer that wraps": made().set_place(2, 0, 0, (1 << 64) - 8, 4404),
            "a size that wraps": made().set_place(2, 0, 0, 8, (1 << 64) - 8),
            "a buffer that is missing": made().set_place(2, none, 0, 0, 0),
            "values that are missing": made().set_place(3, none, 0, 0, 0),
            "indices that are missing": made().set_place(9, none, 0, 0, 0),
            "offsets cut off": made().set_place(2, *good.place(2)[:3], 4400),
            "a bitmap cut off": made().set_place(1, *good.place(1)[:3], 137),
            "all buffers the same": made().all_places_are(3),
            "offsets from below 0": made().put(2, struct.pack("<i", -4)),
            "offsets that fall": made().put(2, last),
            "offsets that end outside": made().put_end(2, struct.pack("<i", 4 * rows + 1)),
            "items that end outside": made().put_end(5, struct.pack("<i", 2 * rows + 1)),
            "pairs that end outside": made().put_end(17, struct.pack("<i", rows + 1)),
            "words that end outside": made().put_end(11, struct.pack("<i", 7)),
            "an index outside": made().put(9, b"\3"),
            "an index below 0": made().put(9, b"\xff"),
        }  # fmt: skip
        for name, lie in lies.items():
            with self.subTest(name):
                self.assertIsNone(self.look(lie.segments))
        self.assertIsNotNone(self.look(good.segments))

    def test_nodes_without_what_they_need(self) -> None:
        """Refused for that, and not for what may lie behind them in memory."""
        none = (1 << 32) - 1

        def segment(children: int, buffers: int, text: bytes) -> bytearray:
            node = NODE.pack(1, 0, 0, 0, 0, none, none, 0, children, 0)
            places = PLACE.pack(none, 0, 0, 0) * buffers
            return bytearray(HEAD.pack(0x31425447, 1, buffers, len(text), 1, 0) + node + places + text)

        self.assertIsNotNone(self.look([segment(0, 1, b"+s\0")]))
        for made, why in ((segment(1, 1, b"+s\0"), "a child is missing"),
                          (segment(0, 0, b"+s\0"), "lacks a buffer"),
                          (segment(0, 1, b"+s"), "no end")):  # fmt: skip
            self.assertIsNone(self.look([made]))
            self.assertIn(why, self.why)

    def test_numbers_that_are_not_aligned(self) -> None:
        it = self.described(self.small())
        segment, unused, offset, size = it.place(7)
        it.segments[segment] += b"\0"
        self.assertIsNotNone(self.look(it.segments))
        self.assertIsNone(self.look(it.set_place(7, segment, unused, offset + 1, size).segments))
        self.assertIn("not aligned", self.why)

    def test_nesting(self) -> None:
        """A description may be short and deep."""
        node = NODE.pack(1, 0, 0, 0, 0, (1 << 32) - 1, (1 << 32) - 1, 0, 1, 0)
        for depth, accepted in ((63, True), (64, False), (60_000, False)):
            leaf = NODE.pack(1, 0, 0, 0, 0, (1 << 32) - 1, (1 << 32) - 1, 0, 0, 0)
            places = PLACE.pack((1 << 32) - 1, 0, 0, 0) * (depth + 1)
            text = b"+s\0"
            head = HEAD.pack(0x31425447, depth + 1, depth + 1, len(text), 1, 0)
            got = self.look([bytearray(head + node * depth + leaf + places + text)])
            self.assertEqual(got is not None, accepted)

    def test_many_nodes(self) -> None:
        none = (1 << 32) - 1
        for children, accepted in ((65535, True), (65536, False)):
            root = NODE.pack(1, 0, 0, 0, 0, none, none, 0, children, 0)
            child = NODE.pack(1, 0, 0, 0, 8, none, none, 0, 0, 0)
            place, text = PLACE.pack(none, 0, 0, 0), b"+s".ljust(8, b"\0") + b"n\0"
            head = HEAD.pack(0x31425447, children + 1, 1, len(text), 1, 0)
            self.producer.send(head + root + child * children + place + text)
            message = self.consumer.receive(5)
            if accepted:
                self.assertEqual(len(message.table().names), children)
            else:
                with self.assertRaises(gantry.Unsupported):
                    message.table()

    def test_rows_that_take_no_memory(self) -> None:
        for format, buffers in ((b"n\0", 0), (b"+s\0", 1)):
            for rows, accepted in ((1 << 48, True), ((1 << 48) + 1, False)):
                node = NODE.pack(rows, 0, 0, 0, 0, (1 << 32) - 1, (1 << 32) - 1, 0, 0, 0)
                places = PLACE.pack((1 << 32) - 1, 0, 0, 0) * buffers
                head = HEAD.pack(0x31425447, 1, buffers, len(format), 1, 0)
                self.producer.send(head + node + places + format)
                message = self.consumer.receive(5)
                if accepted:
                    table = message.table()
                    self.assertEqual(len(table), rows)
                    if format == b"n\0":
                        with self.assertRaisesRegex(gantry.OutOfMemory, f"column 0: .* {rows} "):
                            table.valid(0)
                else:
                    with self.assertRaises(gantry.PeerMisbehaved):
                        message.table()

    def test_messages_that_are_no_tables(self) -> None:
        for data in (b"", b"G", b"GTB1", b"GTB1" + bytes(19), b"GTB1" + bytes(20), bytes(5000)):
            self.assertIsNone(self.look([bytearray(data)]))
        self.producer.send_parts()
        with self.assertRaises(gantry.InvalidArgument):
            self.consumer.receive(5).table()

    def mutate(self, chance: random.Random, it: Described) -> None:
        first, kind = it.segments[0], chance.randrange(8)
        if kind == 0:  # any bit of the description
            first[chance.randrange(it.text_at + it.text_bytes)] ^= 1 << chance.randrange(8)
        elif kind == 1:  # any bit of anything
            data = chance.choice([it for it in it.segments if it])
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        elif kind == 2:  # a number of a node
            place = HEAD.size + chance.randrange(it.nodes) * NODE.size + 8 * chance.randrange(4)
            struct.pack_into("<q", first, place, chance.choice(EDGES) * chance.choice([1, 1, -1]))
        elif kind == 3:  # a place or count of a node
            place = HEAD.size + chance.randrange(it.nodes) * NODE.size + 32 + 4 * chance.randrange(6)
            struct.pack_into("<I", first, place, chance.choice(EDGES) & 0xFFFFFFFF)
        elif kind == 4:  # where a buffer is
            index = chance.randrange(it.buffers)
            words = it.place(index)
            word = chance.choice([0, 2, 3])
            words[word] = (chance.choice([words[word] + chance.randrange(-70, 70), chance.choice(EDGES)])
                           & (0xFFFFFFFF if word == 0 else (1 << 64) - 1))  # fmt: skip
            it.set_place(index, *words)
        elif kind == 5:  # two buffers for each other
            one, other = chance.randrange(it.buffers), chance.randrange(it.buffers)
            places = it.place(one), it.place(other)
            it.set_place(one, *places[1]).set_place(other, *places[0])
        elif kind == 6:  # a segment cut off, or gone
            index = chance.randrange(len(it.segments))
            del it.segments[index][chance.randrange(len(it.segments[index]) + 1) :]
        else:  # an element of a buffer
            full = [i for i in range(it.buffers) if it.place(i)[0] != 0xFFFFFFFF and it.place(i)[3] >= 4]
            if full:
                data = it.data(chance.choice(full))
                struct.pack_into("<I", data, chance.randrange(len(data) - 3), chance.choice(EDGES) & 0xFFFFFFFF)

    def mutants(self, column: Column, count: int, seed: int) -> None:
        chance = random.Random(seed)
        good = self.described(column)
        for number in range(count):
            it = Described([bytes(segment) for segment in good.segments])
            self.mutate(chance, it)
            with self.subTest(seed=seed, number=number):
                self.look(it.segments)

    def test_mutants_of_one_table(self) -> None:
        self.mutants(self.small(), 1500, 1)
        self.assertGreater(self.refused, 300)
        self.assertGreater(self.accepted, 100)

    def test_mutants_of_random_tables(self) -> None:
        zoo = Zoo(21)
        for seed in range(60):
            self.mutants(zoo.table(zoo.chance.choice([1, 40, 900]), 4), 25, seed)
        self.assertGreater(self.refused, 300)
        self.assertGreater(self.accepted, 100)

    def test_a_sender_that_writes_afterwards(self) -> None:
        """A loan can be written by who kept a view of it. Values follow; what leads to them not."""
        column = self.small()
        good = self.described(column)
        whole = bytearray(good.segments[0])  # all in one segment, which is a loan
        for index in range(good.buffers):
            segment, _, _, size = good.place(index)
            if segment not in (0, 0xFFFFFFFF):
                whole += bytes(-len(whole) % 64)
                good.set_place(index, 0, 0, len(whole), size)
                whole += good.segments[segment]
        whole[: good.text_at] = good.segments[0][: good.text_at]
        HEAD.pack_into(whole, 0, *HEAD.unpack_from(whole)[:4], 1, 0)
        with self.producer.loan(len(whole)) as loan:
            loan[:] = numpy.frombuffer(whole, "u1")
            kept = numpy.frombuffer(memoryview(loan), "u1")  # which no loan() finds
        message = self.consumer.receive(5)
        imported = Imported(message.table())
        self.assertEqual(arrow.difference(imported.read(), column), "")
        kept[:] = 0xEE
        self.assertEqual(bytes(message), b"\xee" * len(whole))
        after = imported.read()  # reads nothing outside, and checks it
        self.assertEqual(after.children[0].buffers[:2], column.children[0].buffers[:2])
        self.assertEqual(after.children[2].buffers, column.children[2].buffers)
        self.assertEqual(after.children[0].buffers[2], b"\xee" * 4400)
        imported.release()
