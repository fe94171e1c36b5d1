"""Ranks: processes that compute something together, and what they do with their arrays."""

from __future__ import annotations

import array as arrays
from collections.abc import Sequence
from typing import Any

from . import _core
from .ends import End
from .errors import InvalidArgument
from .runtime import Runtime, shared

_KINDS = {"all_gather": 0, "reduce_scatter": 1, "all_reduce": 2, "all_to_all": 3, "broadcast": 4}
_HOW = "Group(NAME, rank, ranks), or Group() in a program that `gantry run` starts as a rank"


def _buffer(array: Any) -> Any:
    """The array itself, or the memory of a tensor of torch."""
    return array.numpy() if hasattr(array, "__dlpack__") and hasattr(array, "numpy") else array


def _place(
    name: str | None, rank: int | None, ranks: int | None, addresses: tuple[str, ...] | None
) -> tuple[int, int]:
    """Nothing is guessed: a group of one by mistake would sum nothing."""
    if name is None and addresses is None:
        if rank is None and ranks is None:
            return 0, 1  # the launcher's are taken
        raise InvalidArgument("group: it has a rank and no name", _HOW)
    if ranks is None and addresses is not None:
        ranks = len(addresses)
    if rank is None or ranks is None:
        missing = " and ".join(
            what for what, given in (("rank", rank), ("ranks", ranks)) if given is None
        )
        raise InvalidArgument(f"group {name or ''!r}: {missing} must be given, too", _HOW)
    return rank, ranks


class Collective:
    """One of a group's collectives, ready to be run on the same array any number of times."""

    def __init__(self, core: _core.Collective) -> None:
        self._core = core

    @property
    def choice(self) -> str:
        """Which program was taken, and why."""
        return self._core.choice

    def run(self, timeout: float | None = None) -> None:
        """Every rank calls it. Whatever it raises, this rank has left the group then."""
        self._core.run(timeout)


class Group(End):
    """This process as one of `ranks`. It has joined when all have come; if one does not come within
    `timeout` seconds, this raises at every rank. If one fails at once after it has joined, this may
    raise that rank's error at others, instead of their first call.

    Without arguments as the rank as which `gantry run` started this process. By `name`, `rank` and
    `ranks`, ranks are processes of one machine and user; with `addresses`, HOST:PORT of each, and
    `rank`, of any host that knows the token ($GANTRY_TOKEN_FILE holds it).

    Arrays are NumPy's, torch's, or anything that can be written by the buffer protocol, without
    gaps: int32, int64, float16, float32 or float64 (bfloat16 in C and C++ only). Piece i of an
    array of n elements begins at element n * i // ranks. Every rank makes the same calls in the
    same order. When one fails, at any rank, the group is broken and every call says which rank
    failed first, and why; those that are left may join a new one. A rank whose call cannot be made
    (an array that is read-only, a misspelt kind, a timeout that is none) has left the group when
    that raises, whatever it raises: the others get `PeerGone` at once and do not wait for it.
    """

    def __init__(
        self,
        name: str | None = None,
        rank: int | None = None,
        ranks: int | None = None,
        *,
        addresses: Sequence[str] | None = None,
        token: str | None = None,
        stall: float = 10,
        timeout: float | None = 10,
        runtime: Runtime | None = None,
    ) -> None:
        hosts = None if addresses is None else tuple(addresses)
        own, count = _place(name, rank, ranks, hosts)
        if hosts is not None and name is None:
            name = ""
        self._core: _core.Group = _core.Group()
        self._core.join(
            (runtime or shared())._core, name, own, count, hosts, token, stall, timeout,
        )  # fmt: skip
        self.rank, self.ranks = self._core.place()
        self.name = name or f"rank {self.rank} of {self.ranks}"

    def piece(self, array: Any, rank: int | None = None) -> Any:
        """The piece of a flat array that is `rank`'s, or this one's: array[first:last]."""
        which = self.rank if rank is None else rank
        count = len(array)
        return array[count * which // self.ranks : count * (which + 1) // self.ranks]

    def prepare(
        self,
        kind: str,
        array: Any,
        result: Any = None,
        *,
        counts: Sequence[int] | None = None,
        root: int = 0,
        program: str | None = None,
        variant: str | None = None,
        timeout: float | None = None,
    ) -> Collective:
        """For calls that repeat: `kind` is the name of one of the methods below.

        `program`: the name or file of a program of collectives, instead of the one that is picked.
        """
        try:
            if kind not in _KINDS:
                raise ValueError(f"no collective is called {kind!r}; there are {', '.join(_KINDS)}")
            if counts is not None and len(counts) != self.ranks**2:
                raise ValueError(f"counts: {self.ranks**2} are needed, not {len(counts)}")
            given = None if counts is None else arrays.array("q", counts)
            data, into = _buffer(array), _buffer(result)
        except BaseException:
            self.close()  # the others do not wait for this call
            raise
        # What this refuses itself leaves, too; after the library's errors the group knows why.
        made = self._core.prepare(
            _KINDS[kind], data, into, given, root, program, variant, timeout
        )
        return Collective(made)

    def all_gather(self, array: Any, timeout: float | None = None) -> Any:
        """In the end every rank has all pieces, of which each has its own before."""
        self.prepare("all_gather", array, timeout=timeout).run(timeout)
        return array

    def reduce_scatter(self, array: Any, timeout: float | None = None) -> Any:
        """In the end this rank's piece is the sum of all ranks'."""
        self.prepare("reduce_scatter", array, timeout=timeout).run(timeout)
        return array

    def all_reduce(self, array: Any, timeout: float | None = None) -> Any:
        """In the end every rank's array is the sum of all."""
        self.prepare("all_reduce", array, timeout=timeout).run(timeout)
        return array

    def all_to_all(
        self,
        array: Any,
        result: Any,
        counts: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Piece i goes to rank i's `result`, in the order of the ranks.

        `result` has room for `ranks` pieces of the largest size: ceil(n / ranks) * ranks elements.
        With `counts`, rank r has counts[r * ranks + q] elements for rank q, without gaps. Then both
        arrays have room, at every rank, for the most that any rank has for all or gets from all.
        """
        self.prepare("all_to_all", array, result, counts=counts, timeout=timeout).run(timeout)
        return result

    def broadcast(self, array: Any, root: int = 0, timeout: float | None = None) -> Any:
        """In the end every rank's array is the root's."""
        self.prepare("broadcast", array, root=root, timeout=timeout).run(timeout)
        return array
