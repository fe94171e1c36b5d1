"""A table's description, taken apart for tests that lie in it: docs/formats/table.md."""

from __future__ import annotations

import struct

HEAD, NODE, PLACE = struct.Struct("<6I"), struct.Struct("<4q6I"), struct.Struct("<2I2Q")


class Described:
    """The segments of a good table, taken apart."""

    def __init__(self, segments: list[bytes]) -> None:
        self.segments = [bytearray(it) for it in segments]
        first = self.segments[0]
        self.nodes, self.buffers, self.text_bytes = HEAD.unpack_from(first)[1:4]
        self.text_at = HEAD.size + self.nodes * NODE.size + self.buffers * PLACE.size

    def node(self, index: int) -> list[int]:
        return list(NODE.unpack_from(self.segments[0], HEAD.size + index * NODE.size))

    def set_node(self, index: int, **fields: int) -> Described:
        names = ["length", "null_count", "offset", "flags", "format", "name", "metadata",
                 "metadata_bytes", "children", "has_dictionary"]  # fmt: skip
        words = self.node(index)
        for name, value in fields.items():
            words[names.index(name)] = value
        NODE.pack_into(self.segments[0], HEAD.size + index * NODE.size, *words)
        return self

    def place(self, index: int) -> list[int]:
        at = HEAD.size + self.nodes * NODE.size + index * PLACE.size
        return list(PLACE.unpack_from(self.segments[0], at))

    def set_place(self, index: int, *words: int) -> Described:
        at = HEAD.size + self.nodes * NODE.size + index * PLACE.size
        PLACE.pack_into(self.segments[0], at, *words)
        return self

    def set_head(self, **fields: int) -> Described:
        names = ["magic", "nodes", "buffers", "text_bytes", "segments", "unused"]
        words = list(HEAD.unpack_from(self.segments[0]))
        for name, value in fields.items():
            words[names.index(name)] = value
        HEAD.pack_into(self.segments[0], 0, *words)
        return self

    def set_text(self, at: int, text: bytes) -> Described:
        self.segments[0][self.text_at + at : self.text_at + at + len(text)] = text
        return self

    def data(self, index: int) -> memoryview:
        segment, _, offset, size = self.place(index)
        return memoryview(self.segments[segment])[offset : offset + size]

    def put(self, index: int, data: bytes) -> Described:
        self.data(index)[: len(data)] = data
        return self

    def put_metadata(self, data: bytes) -> Described:
        return self.set_text(self.node(0)[6], data)

    def set_format(self, node: int, format: bytes) -> Described:
        """Other nodes have texts of their own."""
        self.set_node(node, format=self.text_bytes)
        count = self.nodes * NODE.size + self.buffers * PLACE.size + HEAD.size
        moved = bytearray(self.segments[0][: count + self.text_bytes]) + format + b"\0"
        moved += bytes(-len(moved) % 64)
        shift = len(moved)
        moved += self.segments[0]
        self.segments[0] = moved
        for index in range(self.buffers):
            segment, unused, offset, size = self.place(index)
            if segment == 0:
                self.set_place(index, 0, unused, offset + shift, size)
        return self.set_head(text_bytes=self.text_bytes + len(format) + 1)

    def put_end(self, index: int, data: bytes) -> Described:
        self.data(index)[-len(data) :] = data
        return self

    def all_places_are(self, which: int) -> Described:
        place = self.place(which)
        for index in range(self.buffers):
            self.set_place(index, *place)
        return self
