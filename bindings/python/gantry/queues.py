"""gantry.Queue: a drop-in for the queues of multiprocessing."""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from logging import getLogger
from multiprocessing import context, util
from multiprocessing.connection import Connection
from operator import index
from queue import Empty, Full
from traceback import print_exception
from types import GenericAlias
from typing import Any, TypeVar

from . import _core, pickles, trace
from .errors import Busy, InvalidArgument, PeerGone, TimedOut, Unsupported
from .feeder import Feeder
from .names import is_missing, open_patiently, say_what_is_awaited
from .queue_home import SLOTS, Home
from .runtime import Runtime, shared

REPORT, PLACE, TASK_DONE, ALL_FINISHED, ALL_DONE, PLACE_BACK = range(6)  # as gantry/queue.h has them
_MOST_HELD = SLOTS - 8  # beyond it what is got is copied, so that there is room for more
_PATIENCE = 1.0  # for a queue to be reached, whatever the deadline
_ANSWER = 5.0  # that qsize() waits for
_BRIEFLY = 0.002  # for room in a ring that is emptied all the time
_UNKNOWN = -1  # the size of a queue that is attached: each put() asks for a place
_TURN = 0.02  # of a thread that waits for a place while the feeder sends
_FEEDER_TURN = 0.1  # after which other threads may use the putting end
_MOST_BATCHED = 256  # as gantry/queue.h has it
_SILENT = 2.0  # seconds without room before the feeder says why

_RULE = (
    f"a process that puts has at most {SLOTS} items above 64 KiB out, waiting or held by any"
    " process: call task_done() with redeliver, and drop what get() returned, or copy its arrays"
)
_ALL_HELD = f"queue: getters hold all items that this process has out, and none waits; {_RULE}"

Taken = TypeVar("Taken")
_all: weakref.WeakSet[Queue] = weakref.WeakSet()


def _whole(maxsize: Any) -> int:
    try:
        return index(maxsize)
    except TypeError:
        raise TypeError(
            f"maxsize: a whole number is needed, 0 for no limit, not {maxsize!r}"
        ) from None


def _flag(redeliver: Any) -> bool:
    if not isinstance(redeliver, bool):
        raise TypeError(f"redeliver: True or False is needed, not {redeliver!r}")
    return redeliver


def _seconds(timeout: Any) -> float | None:
    """None: for ever. One that is over is 0, as in multiprocessing."""
    if timeout is None:
        return None
    if isinstance(timeout, str) or not hasattr(timeout, "__float__"):
        raise TypeError(f"timeout: seconds or None are needed, not {timeout!r}")
    return max(float(timeout), 0)


class Queue:
    """As multiprocessing.Queue, JoinableQueue and SimpleQueue: for the process that makes it and
    its children of any start method, which get it by fork or as an argument.

    Arrays of 4 KiB or more are got without a copy, and are read-only. With `redeliver` an item
    whose process dies or leaves before it calls task_done() for it goes to another one, behind
    those that were handed out meanwhile; without, what was on its way to a process that dies in
    get() is lost. Objects
    are pickled: all processes that have a queue trust each other.

    With a `name` other processes of this user may attach() to it, too, whoever started them.
    """

    _here: _core.Queue | None

    def __init__(
        self, maxsize: int = 0, *, ctx: Any = None, redeliver: bool = False,
        runtime: Runtime | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        self._maxsize = max(_whole(maxsize), 0)
        self._redeliver = _flag(redeliver)
        home = Home(runtime or shared(), self._maxsize, name)
        self._place: tuple[str, Runtime, Connection | None] = (home.name, home.runtime, home.lifeline)
        self._retire: util.Finalize | None = util.Finalize(self, home.retire, exitpriority=-20)
        self._reset()
        self._here = home.queue  # in other processes, and after close(): None

    @classmethod
    def attach(
        cls, name: str, *, redeliver: bool = False, runtime: Runtime | None = None
    ) -> Queue:
        """The queue that another process has made with this name, or will make: the first use waits
        for it. It ends when the processes that its maker gave it to have closed it, or its maker
        ends: get() and put() then raise PeerGone. A wait of more than two seconds for a queue that
        nobody has made is said once, by logging.getLogger("gantry").

        `redeliver` is not the maker's: it holds for what this process gets, and must be given here,
        too."""
        queue = cls.__new__(cls)
        queue.__setstate__((_UNKNOWN, _flag(redeliver), (name, runtime or shared(), None)))
        return queue

    def __getstate__(self) -> tuple[Any, ...]:
        context.assert_spawning(self)
        return self._maxsize, self._redeliver, self._place

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._maxsize, self._redeliver, self._place = state
        self._retire = None
        self._reset()

    def _reset(self) -> None:
        self._here = None
        self._closed = False
        self._opening = threading.Lock()
        self._placing = threading.Lock()
        self._ends: dict[str, Any] = {}
        self._getting: _core.Consumer | None = None
        self._putting: _core.Producer | None = None
        self._in_hand: deque[_core.Message] = deque()
        self._kept: list[_core.Message] = []  # got, and handed to nobody
        self._keeping = threading.Lock()  # who takes from it
        self._feeder = Feeder()
        self._unmade = ""  # why it cannot be reached, if nobody has its name
        self._has_said = False  # that this is so
        self._stuck = ""  # why the feeder has no room, if getters alone can make some
        self._of_thread = threading.local()
        self._is_known = False  # the putting end to the queue
        _all.add(self)

    # Putting.
    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Pickles it and hands it over. queue.Full: no place within `timeout`, or now with
        `block=False`.

        Of what a process puts, 64 items above 64 KiB may be out: waiting, or held by any process
        that got them. More of them wait in this process. If none of the 64 waits any more, it is
        said after two seconds, once, by logging.getLogger("gantry")."""
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")
        try:
            parts = pickles.dumps_item(obj, trace.carried())
        except Exception as error:
            self._on_queue_feeder_error(error, obj)
            return
        if self._maxsize:
            self._put_at_place(parts, _seconds(timeout) if block else 0)
        else:
            self._put_parts(parts)

    def put_many(
        self, items: Iterable[Any], block: bool = True, timeout: float | None = None
    ) -> None:
        """put() of each, in their order; small neighbours go in one message. All are pickled first:
        if one cannot be, this raises and none of them is put. After another exception (queue.Full,
        KeyboardInterrupt, PeerGone) its attribute `put` says how many were put: the first ones. In
        a queue with a `maxsize` each one waits for its place."""
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")
        carried = trace.carried()
        coded = [pickles.dumps_item(item, carried) for item in items]
        seconds = _seconds(timeout) if block else 0
        deadline = None if seconds is None else time.monotonic() + seconds
        put = 0
        try:
            if not self._maxsize:
                put = self._put_coded(coded)
                return
            for parts in coded:
                left = None if deadline is None else max(deadline - time.monotonic(), 0)
                self._put_at_place(parts, left)
                put += 1
        except BaseException as error:
            error.put = put + getattr(error, "put", 0)  # type: ignore[attr-defined]
            raise

    def _put_here(self, coded: list[Any]) -> int:
        """The first ones without a message, in the process that made it, until something has to go
        by a message: then all does, so that what is put stays in its order. How many."""
        here = self._here
        if (
            here is None or self._maxsize or self._putting is not None or not self._feeder.is_idle
            or not isinstance(coded[0], bytes)
        ):  # fmt: skip
            return 0
        return here.put_here(tuple(takewhile(lambda parts: isinstance(parts, bytes), coded)))

    def _put_coded(self, coded: list[Any]) -> int:
        """All of them. Behind what waits in the feeder, or what has no room, by the feeder."""
        put = 0
        try:
            put = self._put_here(coded) if coded else 0
            if self._feeder.is_idle and put < len(coded):
                end = self._putting or self._open_putting(None)
                while put < len(coded) and (
                    sent := self._sent(end, coded[put : put + _MOST_BATCHED], _BRIEFLY)
                ):
                    put += sent
            for parts in coded[put:]:
                self._feeder.append(parts, self._send, print_exception)
                put += 1
        except BaseException as error:
            error.put = put + getattr(error, "put", 0)  # type: ignore[attr-defined]
            raise
        return put

    def _put_at_place(self, parts: Any, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        # A thread that waits for a place has the end: no other may have one and need the end.
        if not self._placing.acquire(timeout=-1 if timeout is None else timeout):
            raise self._full()
        is_put = False
        try:
            try:
                self._take_place(deadline)
                try:
                    self._put_parts(parts)
                    is_put = True
                except BaseException as error:
                    is_put = bool(getattr(error, "put", 0))
                    if not is_put:
                        self._give_place_back()
                    raise
            finally:
                self._placing.release()
        except BaseException as error:
            if is_put:  # a signal's handler raised behind it
                error.put = 1  # type: ignore[attr-defined]
            raise

    def _put_parts(
        self, parts: Any, fail: Callable[[BaseException], None] = print_exception
    ) -> None:
        if self._put_here([parts]):
            return
        if self._feeder.is_idle:
            with contextlib.suppress(TimedOut):
                end = self._putting or self._open_putting(0)
                end.send(parts, _BRIEFLY, 0, 0)
                return
        self._feeder.append(parts, self._send, fail)

    def _take_place(self, deadline: float | None) -> None:
        while True:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            feeds = not self._feeder.is_idle  # what has places, and needs the end
            try:
                end = self._putting or self._open_putting(left)
                end.ask(PLACE, min(left or _TURN, _TURN) if feeds and left != 0 else left)
                return
            except TimedOut:
                if not feeds or left == 0:
                    raise self._full() from None
            time.sleep(_BRIEFLY)

    def _give_place_back(self) -> None:
        if self._putting is not None:
            with contextlib.suppress(PeerGone):
                self._putting.ask(PLACE_BACK, None)

    def _full(self) -> Full:
        why = self._stuck or self._unmade
        return Full(why) if why else Full()

    def _send(self, waiting: list[Any]) -> int:
        """The first of what waits in the feeder: how many. In turns, since other threads need the
        end, too."""
        try:
            end = self._putting or self._open_putting(None)
            since = time.monotonic()
            while not (sent := self._sent(end, waiting, _FEEDER_TURN)):
                if time.monotonic() - since > _SILENT:
                    self._look_for_room(end)
                    since = time.monotonic()
                time.sleep(_BRIEFLY)
            self._stuck = ""
            return sent
        except Exception:
            if self._maxsize:
                self._give_place_back()
            raise

    @staticmethod
    def _sent(end: _core.Producer, waiting: list[Any], timeout: float) -> int:
        """How many of them, from the first on, have gone; 0: there was no room in time. A large one
        goes alone. If some have gone, the next call says what kept the others."""
        small = tuple(map(bytes, takewhile(pickles.is_small, islice(waiting, _MOST_BATCHED))))
        try:
            if len(small) > 1:
                return end.put_many(small, timeout)
            end.send(waiting[0], timeout, 0, 0)
        except Exception as error:
            put: int = getattr(error, "put", 0)
            if put or isinstance(error, TimedOut):
                return put
            raise
        return 1

    def _look_for_room(self, end: _core.Producer) -> None:
        """Slow getters make room by and by; getters that keep what they got do not."""
        has_said = bool(self._stuck)
        with contextlib.suppress(TimedOut):
            report = end.ask(REPORT, _FEEDER_TURN)
            assert report is not None
            self._stuck = _ALL_HELD if report[0] == 0 else ""
        if self._stuck and not has_said:
            getLogger("gantry").warning("gantry: %s", self._stuck)

    def put_nowait(self, obj: Any) -> None:
        """put() that does not wait for a place."""
        self.put(obj, False)

    @staticmethod
    def _on_queue_feeder_error(e: BaseException, obj: Any) -> None:
        """What put() does with an object that cannot be pickled."""
        print_exception(e)

    # Getting.
    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The oldest item that no process has got. queue.Empty: none within `timeout`, or now with
        `block=False`. With `redeliver` gantry.Busy: this process has 64 items for which it has
        not called task_done()."""
        if self._kept:
            return self.get_many(1, block, timeout)[0]
        seconds = _seconds(timeout) if block else 0
        deadline = None if seconds is None else time.monotonic() + seconds
        core = self._take_here(seconds)
        if core is None:
            core = self._take(None if deadline is None else max(deadline - time.monotonic(), 0))
        if core is None:
            raise self._empty()
        if not self._redeliver:
            return self._load(core)
        try:
            item = self._load(core)
        except BaseException:
            core.done()  # nobody else could read it either, and task_done() is for what was got
            raise
        self._in_hand.append(core)
        return item

    def get_many(
        self, most: int, block: bool = True, timeout: float | None = None
    ) -> list[Any]:
        """get() of up to `most` items that are there now (at most 256 at a time), which come in one
        message if they are small: one at least, in the order of the queue. A process gets at most
        its share while others wait, too. What an exception keeps this from returning (Ctrl-C, an
        item that cannot be unpickled) is for the next get() of this process; an item that cannot be
        unpickled is raised once, and not in the midst of others."""
        wanted = index(most)
        if wanted < 1:
            raise ValueError(f"most: 1 or more is needed, not {most!r}")
        seconds = _seconds(timeout) if block else 0
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            if not self._kept:
                left = None if deadline is None else max(deadline - time.monotonic(), 0)
                if not self._take_many(wanted, left):
                    raise self._empty()
            if items := self._take_kept(wanted):
                return items
            if len(self._in_hand) >= SLOTS:  # other threads got them meanwhile
                raise self._busy()
            # Another thread has taken them.

    def _take_kept(self, most: int) -> list[Any]:
        """Nothing leaves `_kept` before all of it can be handed over."""
        got: list[_core.Message] = []
        try:
            return self._handed_over(most, got)
        except BaseException:  # a signal's handler raised behind that: they are for the next get
            with self._keeping:
                self._kept[:0] = got
                for core in got if self._redeliver else ():
                    self._in_hand.remove(core)
            raise

    def _handed_over(self, most: int, got: list[_core.Message]) -> list[Any]:
        """The items; `got` is what they were made of, once it has left `_kept`."""
        with self._keeping:
            if self._redeliver:
                most = min(most, max(SLOTS - len(self._in_hand), 0))
            try:
                items = _core.load_items(self._kept, most, pickle.loads)
            except Exception:
                core = self._kept.pop(0)
                if self._redeliver:
                    core.done()  # nobody else could read it either
                raise
            if items:
                self._of_thread.traceparent = None
            for core in self._kept[len(items) : most]:
                try:
                    items.append(self._load(core))
                except Exception:
                    if items:
                        break  # it is raised when it is the first
                    del self._kept[0]
                    if self._redeliver:
                        core.done()  # nobody else could read it either
                    raise
            count = len(items)  # between the next lines no handler of a signal runs
            got += self._kept[:count]
            if self._redeliver:
                self._in_hand += got
            del self._kept[:count]
        return items

    def _take_many(self, most: int, timeout: float | None) -> bool:
        if self._redeliver:
            most = max(min(most, SLOTS - len(self._in_hand)), 1)
        elif self._here is not None and not self._closed:
            deadline = None if timeout is None else time.monotonic() + timeout
            with contextlib.suppress(PeerGone, TimedOut):  # another thread waits for the next item
                if self._here.take_many_here(most, timeout, self._kept):
                    return True
            timeout = None if deadline is None else max(deadline - time.monotonic(), 0)
        return bool(
            self._taken(timeout, lambda end, left: end.get_many(most, left, self._kept))
        )

    def _take_here(self, timeout: float | None) -> _core.Message | None:
        """What waits or comes, without a message, in the process that made it. None: maybe an end
        gets something."""
        if self._here is None or self._redeliver or self._closed:
            return None
        try:
            return self._here.take_here(timeout)
        except (PeerGone, TimedOut):  # another thread waits for the next item
            return None

    def _take(self, timeout: float | None) -> _core.Message | None:
        return self._taken(timeout, lambda end, left: end.get(left))

    def _taken(
        self, timeout: float | None, take: Callable[[_core.Consumer, float | None], Taken]
    ) -> Taken | None:
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")
        if len(self._in_hand) >= SLOTS:  # a putter may have no room for another item till then
            raise self._busy()
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            end = self._getting or self._open_getting(timeout)
            return take(end, None if deadline is None else max(deadline - time.monotonic(), 0))
        except TimedOut:  # another thread waits for the next item, or the queue does not answer
            return None
        except Busy as error:
            if not self._in_hand:
                raise
            raise self._busy() from error

    def _busy(self) -> Busy:
        return Busy(
            f"queue: this process has {len(self._in_hand)} items in hand, of {SLOTS} at most",
            "call task_done() for those it has worked on, and drop their arrays",
        )

    def _empty(self) -> Empty:
        held = self._getting.held if self._getting is not None else 0
        if held == 0:
            return Empty(self._unmade) if self._unmade else Empty()
        return Empty(f"queue: no item came, and this process holds {held} that it got; {_RULE}")

    def _load(self, core: _core.Message) -> Any:
        held = self._getting.held if self._getting is not None else 0
        item, self._of_thread.traceparent = pickles.loads_item(core, held > _MOST_HELD)
        return item

    def get_nowait(self) -> Any:
        """get() that does not wait."""
        return self.get(False)

    @property
    def traceparent(self) -> str | None:
        """What gantry.trace.traceparent() was where the item that this thread got last was put:
        `with gantry.trace.context(queue.traceparent):` goes on with that trace."""
        found: str | None = getattr(self._of_thread, "traceparent", None)
        return found

    # What is in it.
    def qsize(self) -> int:
        """Items that nobody has got; what this process has put counts at once."""
        size = 0
        for _ in range(3):
            here = len(self._feeder)
            try:
                self._be_known(_ANSWER)
                report = self._asking("ask", timeout=_ANSWER).ask(REPORT, _ANSWER)
            except TimedOut:
                if self._unmade:
                    raise TimedOut(self._unmade) from None
                raise TimedOut(
                    f"queue: the process that made it has not answered within {_ANSWER:g} s",
                    "see whether it is stopped; the queue goes on when that goes on",
                ) from None
            assert report is not None
            size = report[0] + here + len(self._kept)  # rather one too many than to miss what is on its way
            if here == len(self._feeder):
                break
        return size

    def empty(self) -> bool:
        """qsize() is 0."""
        return self.qsize() == 0

    def full(self) -> bool:
        """There are `maxsize` items in it, as qsize() counts them."""
        if self._maxsize == _UNKNOWN:
            raise Unsupported(
                "queue: full() of one that is attached: its maker alone knows its size",
                "put with a timeout, which raises queue.Full",
            )
        return 0 < self._maxsize <= self.qsize()

    def task_done(self) -> None:
        """One item has been worked on. With `redeliver`: the oldest that this process has in hand,
        which nobody else gets from now on."""
        if self._redeliver:
            if not self._in_hand:
                raise ValueError("task_done() called too many times")
            self._in_hand.popleft().done()
            return
        try:
            self._asking("ask").ask(TASK_DONE, None)
        except InvalidArgument:
            raise ValueError("task_done() called too many times") from None

    def join(self) -> None:
        """Waits until task_done() was called for each item that was put."""
        while not self._feeder.is_idle:
            self._feeder.join()
            time.sleep(0)
        self._be_known(None)
        self._asking("join").ask(ALL_DONE if self._redeliver else ALL_FINISHED, None)

    # The end of it.
    def close(self) -> None:
        """This process neither puts nor gets any more."""
        if self._closed:
            return
        self._closed = True
        self._feeder.then(self._drop)

    def _drop(self) -> None:
        self._in_hand.clear()
        self._kept.clear()
        here, self._here = self._here, None
        if here is not None:
            here.leave()
        self._getting = self._putting = None
        for end in [*self._ends.values()]:
            end.close()
        self._ends.clear()
        if self._retire is not None:
            self._retire()
        elif self._place[2] is not None:
            self._place[2].close()

    def join_thread(self) -> None:
        """Waits until all that was put has left this process."""
        assert self._closed, f"Queue {self!r} not closed"
        self._feeder.join()

    def cancel_join_thread(self) -> None:
        """This process does not wait at its end for what it has put to leave it."""
        self._feeder.joins_at_exit = False

    # Its ends, each opened where it is first used.
    @contextlib.contextmanager
    def _reaching(self, timeout: float | None) -> Iterator[float | None]:
        """One thread opens ends at a time."""
        within = None if timeout is None else max(timeout, _PATIENCE)
        if not self._opening.acquire(timeout=-1 if within is None else within):
            raise TimedOut("queue: another thread tries to reach it")
        try:
            yield within
        finally:
            self._opening.release()

    def _reach(
        self, end: _core.Consumer | _core.Producer, kind: str, within: float | None,
        options: dict[str, Any],
    ) -> None:  # fmt: skip
        """A queue that is attached may have a name that nobody gives to a queue."""
        name, runtime, lifeline = self._place

        def opening(left: float | None) -> None:
            try:
                end.open(runtime._core, kind, name, left, options)
            except InvalidArgument as error:
                if all(channel["name"] != name for channel in runtime.channels()):
                    raise
                raise InvalidArgument(
                    f"queue '{name}': the name is of another kind, an inbox or a producer's channel",
                    "gantry.Queue(name=...) makes a queue; Consumer joins a producer's channel",
                ) from error

        if lifeline is not None:
            return opening(within)
        try:
            open_patiently(opening, within, self._say_what_is_awaited)
        except TimedOut as error:
            if is_missing(error):
                self._unmade = (
                    f"queue '{name}': no process has made it; check the name, and that both use"
                    " the same GANTRY_DIR"
                )
            raise
        self._unmade = ""

    def _say_what_is_awaited(self, error: TimedOut) -> None:
        if is_missing(error) and not self._has_said:
            self._has_said = True
            name, runtime, _ = self._place
            say_what_is_awaited("queue", name, "the process that makes it", runtime)

    def _be_known(self, timeout: float | None) -> None:
        """What other ends ask is about what has been put here, too: the queue answers the putting
        end when it has taken in what came by its connection, which may be new."""
        if self._putting is not None and not self._is_known:
            self._putting.ask(REPORT, timeout)
            self._is_known = True

    def _open_putting(self, timeout: float | None) -> _core.Producer:
        with self._reaching(timeout) as within:
            if self._putting is None:
                end = self._ends["put"] = _core.Producer()
                self._reach(end, "queue", within, {"slots": SLOTS})
                self._putting = end
            return self._putting

    def _open_getting(self, timeout: float | None) -> _core.Consumer:
        kind = "queue, done by hand" if self._redeliver else "queue"
        self._getting = self._asking("get", kind, timeout)
        return self._getting

    def _asking(
        self, role: str, kind: str = "queue", timeout: float | None = None
    ) -> _core.Consumer:
        """Threads that wait for different things do not wait for each other."""
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")
        with self._reaching(timeout) as within:
            end: _core.Consumer | None = self._ends.get(role)
            if end is None:
                end = _core.Consumer()
                self._reach(end, kind, within, {"spin_ns": -1})
                self._ends[role] = end
            return end

    __class_getitem__ = classmethod(GenericAlias)


JoinableQueue = Queue


class SimpleQueue(Queue):
    """A Queue whose put() raises what pickling raises."""

    def __init__(self, *, ctx: Any = None, redeliver: bool = False) -> None:
        super().__init__(ctx=ctx, redeliver=redeliver)

    @staticmethod
    def _on_queue_feeder_error(e: BaseException, obj: Any) -> None:
        raise e


def _forget() -> None:
    for queue in list(_all):
        queue._retire = None
        queue._reset()


os.register_at_fork(after_in_child=_forget)
