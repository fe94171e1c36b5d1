"""Groups of ranks and their collectives, between processes: every element is compared."""

from __future__ import annotations

import array as arrays
import os
import signal
import unittest.mock
from typing import Any

import numpy

import gantry
from support import FORK, Case

RANKS = 3
zeros = numpy.zeros
TYPES = ["i4", "i8", "f2", "f4", "f8"]


def rank_main(rank: int, body: Any, said: Any) -> None:
    try:
        with gantry.Group("ranks", rank, RANKS, timeout=60) as group:
            said.put((rank, body(group)))
    except BaseException as error:  # noqa: BLE001
        said.put((rank, error))


class Groups(Case):
    def at_all_ranks(self, body: Any) -> list[Any]:
        """What `body` returns, or raises, at each rank: processes of their own."""
        said = FORK.SimpleQueue()
        ranks = [FORK.Process(target=rank_main, args=(rank, body, said)) for rank in range(RANKS)]
        for one in ranks:
            one.start()
        answers = dict(said.get() for _ in ranks)
        for one in ranks:
            one.join()
            one.close()
        said.close()
        return [answers[rank] for rank in range(RANKS)]

    def test_each_collective_on_each_type(self) -> None:
        def body(group: gantry.Group) -> None:
            self.assertEqual(group.ranks, RANKS)
            for dtype in TYPES:
                for count in (1, 7, 3000):
                    own = [numpy.arange(count, dtype=dtype) % 50 + rank for rank in range(RANKS)]
                    total = sum(own[1:], own[0])
                    mine = own[group.rank]
                    array = group.all_reduce(mine.copy())
                    numpy.testing.assert_array_equal(array, total)
                    array = group.reduce_scatter(mine.copy())
                    numpy.testing.assert_array_equal(group.piece(array), group.piece(total))
                    array = numpy.zeros(count, dtype)
                    group.piece(array)[:] = group.piece(mine)
                    group.all_gather(array)
                    for rank in range(RANKS):
                        numpy.testing.assert_array_equal(
                            group.piece(array, rank), group.piece(own[rank], rank)
                        )
                    array = group.broadcast(mine.copy(), root=1)
                    numpy.testing.assert_array_equal(array, own[1])
                    room = (count + RANKS - 1) // RANKS * RANKS
                    result = group.all_to_all(mine.copy(), numpy.zeros(room, dtype))
                    size = len(group.piece(mine))
                    for rank in range(RANKS):
                        numpy.testing.assert_array_equal(
                            result[rank * size : (rank + 1) * size], group.piece(own[rank])
                        )

        self.assertEqual(self.at_all_ranks(body), [None] * RANKS)

    def test_what_is_prepared_runs_again_on_what_is_there_then(self) -> None:
        def body(group: gantry.Group) -> str:
            array = numpy.zeros(1000, "f4")
            made = group.prepare("all_reduce", array)
            for run in range(5):
                array[:] = group.rank + run
                made.run()
                numpy.testing.assert_array_equal(array, 3 + 3 * run)
            return made.choice

        choices = self.at_all_ranks(body)
        self.assertIn("all-reduce", choices[0])
        self.assertEqual(choices, choices[:1] * RANKS)

    def test_counts_of_all_to_all(self) -> None:
        counts = [0, 1, 2, 3, 0, 1, 2, 2, 2]  # row r: from rank r

        def body(group: gantry.Group) -> list[float]:
            array = numpy.full(6, group.rank + 1.0)
            return list(group.all_to_all(array, numpy.zeros(6), counts))

        self.assertEqual(
            self.at_all_ranks(body),
            [[2, 2, 2, 3, 3, 0], [1, 3, 3, 0, 0, 0], [1, 1, 2, 3, 3, 0]],
        )

    def test_what_cannot_be_says_why(self) -> None:
        def refused(error: Any, words: str, call: Any) -> None:
            with gantry.Group("alone", 0, 1, timeout=60) as group:
                with self.assertRaisesRegex(error, words):
                    call(group)

        impossible = gantry.InvalidArgument
        refused(ValueError, "called 'gather'", lambda g: g.prepare("gather", zeros(3)))
        refused(ValueError, "1 are needed", lambda g: g.all_to_all(zeros(2), zeros(2), [1, 1]))
        fixed = zeros(3)
        fixed.flags.writeable = False
        for array in (bytes(8), fixed, fixed[::2]):
            refused(impossible, "^array: it is read-only; .*copy", lambda g: g.all_reduce(array))
        for array in (zeros((4, 4))[:, 1], zeros((3, 4)).T, zeros(8)[::2]):
            refused(impossible, "^array: it has gaps.*contiguous", lambda g: g.all_reduce(array))
        for array in ([1.0, 2.0], 3.0, None):
            words = "^array: it is no array.*numpy.array"
            refused(impossible, words, lambda g: g.all_reduce(array))
        refused(impossible, "^result: it is no array", lambda g: g.all_to_all(zeros(2), [0, 0]))
        refused(impossible, "another type", lambda g: g.all_to_all(zeros(2), zeros(2, "f4")))
        for dtype in ("bool", "uint8", "int16", "complex64", "uint64"):
            words = f"no elements of type {dtype}; they have int32, int64, float16, float32, f"
            refused(impossible, words, lambda g: g.all_reduce(zeros(2, dtype)))
        with gantry.Group("alone", 0, 1, timeout=60) as group:
            pass
        with self.assertRaisesRegex(impossible, "closed"):
            group.all_reduce(zeros(2))
        with self.assertRaisesRegex(gantry.NotFound, "give a name, a rank"):
            gantry.Group()
        with self.assertRaisesRegex(gantry.TimedOut, "rank 1"):
            gantry.Group("halves", 0, 2, timeout=0.01)
        with self.assertRaisesRegex(impossible, "one is needed for each rank"):
            gantry.Group("hosts", 0, 2, addresses=["127.0.0.1:1"], token="x" * 32)
        without = {"GANTRY_TOKEN_FILE": ""}
        words = r"need a token; set token=, or name a file .* in \$GANTRY_TOKEN_FILE"
        with unittest.mock.patch.dict(os.environ, without):
            with self.assertRaisesRegex(gantry.PermissionDenied, words):
                gantry.Group("hosts", 0, addresses=["127.0.0.1:1", "127.0.0.1:2"])

    def test_rank_and_ranks_are_not_guessed(self) -> None:
        host, token = ["127.0.0.1:1"], "x" * 32
        given: list[tuple[str, Any]] = [
            ("^group 'sum': rank and ranks must be given", lambda: gantry.Group("sum")),
            ("^group 'sum': ranks must be given", lambda: gantry.Group("sum", 0)),
            ("^group 'sum': rank must be given", lambda: gantry.Group("sum", ranks=2)),
            ("^group '': rank must be given", lambda: gantry.Group(addresses=host)),
            ("^group: it has a rank and no name", lambda: gantry.Group(rank=0, ranks=2)),
            ("^group: it has a rank and no name", lambda: gantry.Group(ranks=2)),
            ("rank 1: there are 1 ranks", lambda: gantry.Group(None, 1, addresses=host, token=token)),
        ]
        for words, join in given:
            with self.assertRaisesRegex(gantry.InvalidArgument, words):
                join()
        with gantry.Group(rank=0, addresses=host, token=token, timeout=60) as group:
            self.assertEqual((group.rank, group.ranks), (0, 1))

    def test_a_rank_alone_has_a_name_like_others(self) -> None:
        for name in ("", ".", "../x", "a/b", "a b", "x" * 65):
            for ranks in (1, 2):
                with self.assertRaisesRegex(gantry.InvalidArgument, "rank 0: channel name '"):
                    gantry.Group(name, 0, ranks, timeout=60)

    def test_nobody_waits_for_a_call_that_one_rank_cannot_make(self) -> None:
        def body(group: gantry.Group) -> None:
            wrong = {0: numpy.zeros(3, "?"), 1: numpy.zeros(3)[::2]}
            group.all_reduce(numpy.zeros(3))
            group.all_reduce(wrong.get(group.rank, numpy.zeros(3)))

        answers = self.at_all_ranks(body)
        self.assertIsInstance(answers[0], gantry.Error)
        self.assertIsInstance(answers[1], gantry.Error)
        self.assertIsInstance(answers[2], gantry.PeerGone)

    def test_a_rank_out_of_whose_call_anything_is_raised_has_left(self) -> None:
        class Tensor:
            __dlpack__ = None

            def __init__(self, error: BaseException) -> None:
                self.error = error

            def numpy(self) -> None:
                raise self.error

        def exchange(first: Any) -> Any:
            counts = [first] + [0] * (RANKS**2 - 1)
            return lambda group, made: group.all_to_all(zeros(4), zeros(4), counts)

        def reduce(array: Any = (), **words: Any) -> Any:
            return lambda group, made: group.prepare("all_reduce", array or zeros(4), **words)

        calls: list[tuple[str, Any]] = [
            ("TypeError", lambda group, made: group.broadcast(zeros(4), root="x")),
            ("InvalidArgument", lambda group, made: group.broadcast(zeros(4), root=2**32)),
            ("ValueError", lambda group, made: group.prepare("all_redcue", zeros(4))),
            ("TypeError", lambda group, made: group.prepare(["all_reduce"], zeros(4))),
            ("TypeError", lambda group, made: group.all_to_all(zeros(4), zeros(4), iter("1"))),
            ("OverflowError", exchange(2**63)),
            ("TypeError", exchange("a")),
            ("InvalidArgument", exchange(-1)),
            ("InvalidArgument", reduce(timeout=-1)),
            ("TypeError", reduce(timeout="x")),
            ("TypeError", reduce(program=7)),
            ("ValueError", reduce(variant="\0")),
            ("RuntimeError", reduce(Tensor(RuntimeError()))),
            ("KeyboardInterrupt", reduce(Tensor(KeyboardInterrupt()))),
            ("InvalidArgument", reduce(b"1234")),
            ("InvalidArgument", lambda group, made: made.run(-1)),
            ("TypeError", lambda group, made: made.run("x")),
        ]
        for kind, call in calls:
            heard, prepared = FORK.Semaphore(0), FORK.Barrier(RANKS)

            def body(group: gantry.Group) -> str:
                made = group.prepare("all_reduce", zeros(4))
                prepared.wait(60)
                try:
                    if group.rank == 0:
                        call(group, made)
                    else:
                        made.run(30)
                    return "ran"
                except BaseException as error:  # noqa: BLE001
                    if group.rank > 0:
                        heard.release()
                    elif not all(heard.acquire(timeout=60) for _ in range(RANKS - 1)):
                        return "nobody heard it"
                    return type(error).__name__

            with self.subTest(kind):
                answers = self.at_all_ranks(body)
                self.assertEqual(answers[0], kind)
                for answer in answers[1:]:  # what the library refused it tells
                    self.assertIn(answer, ("PeerGone", kind if kind == "InvalidArgument" else ""))

    def test_a_closed_group_has_left_though_its_collectives_are_kept(self) -> None:
        heard, prepared = FORK.Semaphore(0), FORK.Barrier(RANKS)

        def body(group: gantry.Group) -> str:
            made = group.prepare("all_reduce", zeros(4))
            prepared.wait(60)
            if group.rank == 0:
                group.close()
                return str([heard.acquire(timeout=60) for _ in range(RANKS - 1)])
            try:
                made.run(30)
            except gantry.PeerGone as error:
                heard.release()
                return str(error)
            return "ran"

        first, *others = self.at_all_ranks(body)
        self.assertEqual(first, "[True, True]")
        for one in others:
            self.assertIn("rank 0 left", one)

    def test_numbers_beyond_32_bits_are_refused(self) -> None:
        def alone(rank: int = 0, ranks: int = 1, root: int = 0) -> None:
            with gantry.Group("alone", rank, ranks, timeout=60) as group:
                group.broadcast(zeros(3), root)

        alone()
        for name in ("rank", "ranks", "root"):
            for value in (-1, 2**32, 2**32 + 1, 2**63, 2**64 + 1, -(2**64)):
                with self.assertRaisesRegex(gantry.InvalidArgument, f"^{name}: it is negative, or"):
                    alone(**{name: value})
        with self.assertRaisesRegex(gantry.InvalidArgument, "root 4294967295 of 1 ranks"):
            alone(root=2**32 - 1)
        with self.assertRaisesRegex(gantry.InvalidArgument, "rank 4294967295: there are 1"):
            alone(rank=2**32 - 1)
        with self.assertRaisesRegex(gantry.InvalidArgument, "4294967295 ranks; 1 to 256"):
            alone(ranks=2**32 - 1)
        for wrong in (1.0, "1", None):
            with self.assertRaises(TypeError):
                alone(root=wrong)  # type: ignore[arg-type]

    def test_no_elements_are_fine_wherever_they_lie(self) -> None:
        def body(group: gantry.Group) -> None:
            memory = bytearray(16)
            for first in range(9):
                with memoryview(memory)[first:first].cast("d") as empty:
                    for call in (group.all_reduce, group.broadcast, group.all_gather):
                        call(empty)
                    group.all_to_all(empty, empty)
                    group.all_to_all(empty, empty, [0] * RANKS**2)
            group.all_reduce(arrays.array("i"))

        self.assertEqual(self.at_all_ranks(body), [None] * RANKS)

    def test_ranks_that_differ_all_hear_it(self) -> None:
        def body(group: gantry.Group) -> None:
            group.all_reduce(numpy.zeros(10 + group.rank))

        for error in self.at_all_ranks(body):
            self.assertIsInstance(error, gantry.InvalidArgument)
            self.assertRegex(
                str(error),
                r"ranks (.) and (.) have different plans: "  # maybe while the others still join
                r"'size 1\1 f64' at rank \1, 'size 1\2 f64' at rank \2; ",
            )

    def test_a_rank_that_dies_is_named(self) -> None:
        def body(group: gantry.Group) -> None:
            made = group.prepare("all_reduce", numpy.zeros(10))
            made.run()
            if group.rank == 1:
                raise ValueError("has left")  # closes its group
            made.run()

        answers = self.at_all_ranks(body)
        self.assertIsInstance(answers[1], ValueError)
        for rank in (0, 2):
            self.assertIsInstance(answers[rank], gantry.PeerGone)
            self.assertIn("rank 1", str(answers[rank]))

    def test_ctrl_c_ends_a_wait_for_the_others(self) -> None:
        is_interrupted = FORK.Event()

        def body(group: gantry.Group) -> str:
            made = group.prepare("all_reduce", numpy.zeros(10))
            try:  # the signal may come before the last of these calls returns
                first = int(group.broadcast(numpy.array([os.getpid()]))[0])
                if group.rank == 1:
                    os.kill(first, signal.SIGINT)
                    is_interrupted.wait()
                made.run()
            except KeyboardInterrupt:
                is_interrupted.set()
                return "interrupted"
            except gantry.Error as error:
                return str(error)
            return "ran"

        first, *others = self.at_all_ranks(body)
        self.assertEqual(first, "interrupted")
        for one in others:
            self.assertIn("rank 0", one)


if __name__ == "__main__":
    unittest.main()
