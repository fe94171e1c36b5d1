"""Tables by the structs of the Arrow C data interface: every byte of every buffer, and who releases.

GDAL's tables, where it is installed.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib.util
import threading
import unittest
from typing import Any

import arrow_structs as arrow
import numpy
from arrow_structs import Column, Export, Imported, Zoo
from support import SPAWN, Case, pattern

import gantry

HAS_GDAL = importlib.util.find_spec("osgeo") is not None


def numbers(count: int, dtype: str = "i8", format: str = "l", name: str = "n") -> Column:
    return Column(format, count, (None, pattern(count, dtype).tobytes()), name=name)


def table_of(*columns: Column) -> Column:
    return Column("+s", columns[0].length, (None,), children=columns)


def send_back(incoming: gantry.PipeReader, outgoing: gantry.PipeWriter) -> None:
    """Another process: each table goes back by its structs."""
    with outgoing:
        for message in incoming:
            outgoing.send(message.table())
            del message


class Arrow(Case):
    def travel(self, producer: gantry.Producer, consumer: gantry.Consumer, column: Column) -> None:
        sent = Export(column)
        producer.send(sent, timeout=5)
        self.assertTrue(sent.all_released)
        self.same(arrow.received(consumer.receive(5).table()), column)

    def same(self, one: Column, other: Column) -> None:
        self.assertEqual(arrow.difference(one, other), "")

    def full(self, producer: gantry.Producer) -> bool:
        try:
            producer.send(bytes(100_000), timeout=0.01)
        except TimeoutError:
            return True
        return False

    def test_every_format(self) -> None:
        producer, consumer = self.pair()
        for rows in (0, 1, 9, 1000, 5000):
            for column in arrow.everything(rows):
                with self.subTest(rows=rows, format=column.format):
                    self.travel(producer, consumer, column)

    def test_random_tables(self) -> None:
        producer, consumer = self.pair()
        zoo = Zoo(5)
        for _ in range(150):
            rows = zoo.chance.choice([0, 1, 3, 100, 700])
            self.travel(producer, consumer, zoo.table(rows, zoo.chance.randrange(5)))

    def test_more_buffers_than_segments(self) -> None:
        producer, consumer = self.pair()
        for count, rows in ((63, 1000), (64, 1000), (500, 1000), (500, 3)):
            columns = [numbers(rows + n, name=str(n)) for n in range(count)]
            column = table_of(*columns)._replace(length=rows)
            producer.send(Export(column), timeout=5)
            message = consumer.receive(5)
            self.assertEqual(len(message), 1 if rows == 3 else min(64, count + 1))
            self.same(arrow.received(message.table()), column)

    def test_values_lie_in_the_message(self) -> None:
        producer, consumer = self.pair()
        producer.send(Export(table_of(numbers(1_000_000), numbers(1_000_000, "f4", "f"))))
        message = consumer.receive(5)
        self.assertEqual(len(message), 3)
        imported = Imported(message.table())
        for index in range(2):
            segment = numpy.frombuffer(message.segment(index + 1), "u1")
            self.assertEqual(imported.array.children[index].contents.buffers[1], segment.ctypes.data)
        imported.release()

    def test_several_in_one_message(self) -> None:
        producer, consumer = self.pair()
        zoo = Zoo(9)
        tables = [zoo.table(2000, 4) for _ in range(3)]
        producer.send_parts(b"head", Export(tables[0]), Export(tables[1]), b"between", Export(tables[2]))
        message = consumer.receive(5)
        first = message.table(1)
        second = message.table(1 + first.segments)
        between = 1 + first.segments + second.segments
        self.assertEqual(bytes(message.segment(between)), b"between")
        third = message.table(between + 1)
        self.assertEqual(between + 1 + third.segments, len(message))
        for table, sent in zip((first, second, third), tables):
            self.same(arrow.received(table), sent)
        for wrong in (0, between):
            with self.assertRaises(gantry.InvalidArgument) as caught:
                message.table(wrong)
            self.assertIn("segment", caught.exception.hint)
        with self.assertRaises(gantry.InvalidArgument):
            message.table(64)

    def test_columns(self) -> None:
        producer, consumer = self.pair()
        values, bitmap = pattern(3000, "i4"), bytes(range(250)) * 2
        days, flags = pattern(3000, "i8"), pattern(400)
        nulls = 2900 - int(arrow.bits(bitmap, 50, 2900).sum())
        column = Column("+s", 2800, (None,), offset=30, children=(
            Column("i", 2900, (bitmap, values.tobytes()), nulls, 50, "values"),
            Column("tsu:UTC", 3000, (None, days.tobytes()), name="when"),
            Column("b", 3000, (None, flags.tobytes()), name="flags"),
            Column("u", 3000, (None, bytes(4 * 3001), b""), name="text")))  # fmt: skip
        producer.send(Export(column))
        table = consumer.receive(5).table()
        self.assertEqual(table.names, ["values", "when", "flags", "text"])
        self.assertEqual((len(table), table.formats[1]), (2800, "tsu:UTC"))
        got = table.column("values")
        self.assertFalse(got.flags.writeable)
        self.assertEqual((got.dtype, got.tobytes()), (values.dtype, values[80:2880].tobytes()))
        when = table.column(1)
        self.assertEqual((when.dtype, when.tobytes()), (numpy.dtype("M8[us]"), days[30:2830].tobytes()))
        self.assertEqual(table.column("flags").tolist(), arrow.bits(flags.tobytes(), 30, 2800).tolist())
        self.assertEqual(table.valid("values").tolist(), arrow.bits(bitmap, 80, 2800).tolist())
        self.assertTrue(table.valid("when").all())
        with self.assertRaises(gantry.InvalidArgument) as caught:
            table.column("text")
        self.assertIn("Arrow", caught.exception.hint)
        with self.assertRaises(gantry.InvalidArgument):
            table.column("nothing")
        with self.assertRaises(IndexError):
            table.column(4)

    def test_by_address(self) -> None:
        producer, consumer = self.pair()
        column = Zoo(2).table(1000, 4)
        made = Export(column)
        addresses = ctypes.addressof(made.schema), ctypes.addressof(made.array)
        table = gantry.tables.from_address(*addresses)
        with self.assertRaises(gantry.InvalidArgument) as caught:
            gantry.tables.from_address(*addresses)
        self.assertIn("once", caught.exception.hint)
        imported = Imported(table)  # a consumer in this process, too
        producer.send(table)
        producer.send(table)
        del table
        self.assertEqual(made.released, [])
        self.same(imported.read(), column)
        imported.release()
        self.assertTrue(made.all_released)
        for _ in range(2):
            self.same(arrow.received(consumer.receive(5).table()), column)

    def test_released_when_a_send_ends(self) -> None:
        producer, consumer = self.pair(slots=1)
        large = table_of(numbers(100_000))
        for value in (bytes(100_000), None):
            sent = Export(large)
            if value is None:
                producer.drop()
            else:
                producer.send(value)
            with self.assertRaises(gantry.Error):
                producer.send(sent, timeout=0.01)
            self.assertTrue(sent.all_released)
        parts = [Export(large) for _ in range(3)]
        with self.assertRaises(gantry.InvalidArgument):
            producer.send_parts(*parts, "text")
        for part in parts:
            self.assertTrue(part.all_released)
        del consumer

    def test_released_when_an_async_send_ends(self) -> None:
        producer, consumer = self.pair(slots=1)
        column, sent = table_of(numbers(100_000)), []

        async def work() -> None:
            for _ in range(4):
                sent.append(Export(column))
                await producer.send_async(sent[-1], timeout=5)
                self.assertTrue(sent[-1].all_released)
                self.same(arrow.received(consumer.receive(5).table()), column)

        asyncio.run(work())

    def test_slots_return_with_the_last_release(self) -> None:
        producer, consumer = self.pair(slots=1)
        column = table_of(numbers(100_000), numbers(100_000))
        producer.send(Export(column))
        message = consumer.receive(5)
        imported, again = Imported(message.table()), Imported(message.table())
        child = arrow.ArrowArray()  # moved out of its parent, which it outlives
        place = imported.array.children[1].contents
        ctypes.memmove(ctypes.addressof(child), ctypes.addressof(place), ctypes.sizeof(child))
        place.release = arrow.RELEASE()
        with self.assertRaises(gantry.Busy):
            producer.send(message)
        del message
        for it in (again.array, again.schema, imported.array, imported.schema):
            self.assertTrue(self.full(producer))
            arrow.release(it)
        self.assertTrue(self.full(producer))
        self.assertEqual(ctypes.string_at(child.buffers[1], 800_000), pattern(100_000, "i8").tobytes())
        arrow.release(child)
        self.assertFalse(self.full(producer))

    def test_released_in_another_thread_after_the_ends(self) -> None:
        producer, consumer = self.pair()
        column = Zoo(4).table(5000, 6)
        imported = []
        for _ in range(4):
            producer.send(Export(column))
            imported.append(Imported(consumer.receive(5).table()))
        producer.drop()
        consumer.close()
        del producer, consumer
        self.doCleanups()
        read: list[Column] = []

        def use(it: Imported) -> None:
            read.append(it.read())
            it.release()

        threads = [threading.Thread(target=use, args=(it,)) for it in imported]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(read), 4)
        for it in read:
            self.same(it, column)

    def test_capsules_that_nobody_takes(self) -> None:
        producer, consumer = self.pair(slots=1)
        producer.send(Export(table_of(numbers(100_000))))
        capsules = consumer.receive(5).table().__arrow_c_array__()
        self.assertTrue(self.full(producer))
        del capsules
        self.assertFalse(self.full(producer))

    def test_another_process(self) -> None:
        reader, out = gantry.pipe()
        back, writer = gantry.pipe()
        self.start(send_back, reader, writer, context=SPAWN)
        zoo = Zoo(11)
        for rows in (0, 10, 100_000):
            column = zoo.table(rows, 3, 2)
            out.send(Export(column), timeout=30)
            self.same(arrow.received(back.receive(30).table()), column)
        out.close()
        with self.assertRaises(gantry.Closed):
            back.receive(30)
        back.close()

    def test_what_cannot_be_sent(self) -> None:
        producer, _ = self.pair()
        good, deep = numbers(5), numbers(1)
        for _ in range(64):
            deep = table_of(deep)
        bad = [
            (good._replace(format="+ud:0"), "format"), (good._replace(format="vu"), "format"),
            (good._replace(format="w:x"), "format"), (good._replace(format=""), "format"),
            (good._replace(buffers=(None,)), "buffers"), (good._replace(buffers=(None, None)), "NULL"),
            (good._replace(null_count=1), "NULL"), (good._replace(length=-1), "length"),
            (good._replace(offset=-1), "offset"), (good._replace(null_count=6), "null count"),
            (table_of(good)._replace(length=6), "shorter"), (deep, "64"),
            (good._replace(children=(good,)), "children"),
            (numbers(5, "f8", "g")._replace(dictionary=good), "dictionary"),
            (Column("u", 1, (None, b"\0\0\0\0\xff\xff\xff\xff", b"")), "offsets"),
        ]  # fmt: skip
        for column, why in bad:
            with self.subTest(why), self.assertRaises(gantry.Error) as caught:
                sent = Export(column)
                producer.send(sent)
            self.assertIn(why, caught.exception.message)
            self.assertTrue(caught.exception.hint)
            self.assertTrue(sent.all_released)

    def test_objects_that_are_no_tables(self) -> None:
        producer, _ = self.pair()

        class Stream:
            def __arrow_c_stream__(self, requested_schema: object = None) -> None: ...

        class Liar:
            def __arrow_c_array__(self) -> tuple[int, int]:
                return (1, 2)

        class Raising:
            def __arrow_c_array__(self) -> None:
                raise KeyError("mine")

        with self.assertRaises(gantry.InvalidArgument) as caught:
            producer.send(Stream())
        self.assertIn("batch", caught.exception.hint)
        with self.assertRaises(ValueError):
            producer.send(Liar())
        with self.assertRaises(KeyError):
            producer.send(Raising())


@unittest.skipUnless(HAS_GDAL, "python3-gdal is not installed")
class Gdal(Case):
    def layer(self, count: int) -> tuple[Any, Any]:
        from osgeo import ogr

        ogr.UseExceptions()
        source = ogr.GetDriverByName("Memory").CreateDataSource("made")
        layer = source.CreateLayer("points", geom_type=ogr.wkbPoint)
        for name, kind in (("id", ogr.OFTInteger64), ("size", ogr.OFTReal), ("text", ogr.OFTString),
                           ("list", ogr.OFTIntegerList), ("day", ogr.OFTDate),
                           ("raw", ogr.OFTBinary)):  # fmt: skip
            layer.CreateField(ogr.FieldDefn(name, kind))
        for n in range(count):
            feature = ogr.Feature(layer.GetLayerDefn())
            feature["id"] = n * 1_000_003
            if n % 3 != 0:
                feature["size"] = n / 7
                feature["text"] = "wörd " * (n % 5)
                feature.SetFieldIntegerList(3, list(range(n % 4)))
                feature.SetField(4, 2000 + n % 20, 1 + n % 12, 1 + n % 28, 0, 0, 0, 0)
            feature.SetFieldBinaryFromHexString("raw", f"{n % 256:02x}" * (n % 6))
            feature.SetGeometry(ogr.CreateGeometryFromWkt(f"POINT ({n} {-n})"))
            layer.CreateFeature(feature)
        return source, layer

    def test_its_batches_arrive(self) -> None:
        producer, consumer = self.pair()
        for count in (0, 1, 5000):
            source, layer = self.layer(count)
            stream = layer.GetArrowStream(["MAX_FEATURES_IN_BATCH=2000"])
            rows = 0
            while (batch := stream.GetNextRecordBatch()) is not None:
                schema = stream.GetSchema()
                addresses = schema._getPtr(), batch._getPtr()
                made = arrow.read(arrow.ArrowSchema.from_address(addresses[0]),
                                  arrow.ArrowArray.from_address(addresses[1]))  # fmt: skip
                producer.send(gantry.tables.from_address(*addresses))
                self.assertFalse(arrow.ArrowArray.from_address(addresses[1]).release)
                table = consumer.receive(5).table()
                self.assertEqual(arrow.difference(arrow.received(table), made), "")
                expected = numpy.arange(rows, rows + len(table))
                self.assertEqual(table.column("id").tolist(), (expected * 1_000_003).tolist())
                valid = table.valid("size")
                self.assertEqual(valid.tolist(), (expected % 3 != 0).tolist())
                sizes = table.column("size")[valid]
                self.assertEqual(sizes.tolist(), [n / 7 for n in expected.tolist() if n % 3 != 0])
                rows += len(table)
                del table, batch, schema
            self.assertEqual(rows, count)
            del stream, layer, source
