"""Waiting for an end's descriptor in asyncio, by any number of tasks of any loops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")
_Loop = asyncio.AbstractEventLoop
_Future = asyncio.Future[None]


def _wake_one(woken: _Future) -> None:
    if not woken.done():
        woken.set_result(None)


class _Watch:
    """What one loop watches an end by: a descriptor of its own, which the end cannot close."""

    def __init__(self, descriptor: int) -> None:
        self.waiting: set[_Future] = set()
        self.descriptor = os.dup(descriptor)

    def finish(self, loop: _Loop) -> None:
        """On the loop's own thread."""
        if not loop.is_closed():
            loop.remove_reader(self.descriptor)
        for woken in self.waiting:
            _wake_one(woken)

    def __del__(self) -> None:  # the loop has let go of it, or was closed
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


class Readiness:
    """The tasks that wait for one end. Who is woken asks again; all are woken together.

    A look at the descriptor takes note of having been woken, and so takes the event from those who
    wait: only who is the first to wait does it.
    """

    def __init__(self, descriptor: Callable[[], int]) -> None:
        self.lock = threading.RLock()  # held in all short uses of the end by tasks
        self._note = descriptor
        self._descriptor = -1
        self._watches: dict[_Loop, _Watch] = {}

    async def until(
        self, ask: Callable[[], Answer | None], timeout: float | None = None
    ) -> Answer | None:
        """The first answer of `ask`; None if there is none within `timeout`."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            with self.lock:
                if self._watches:
                    self._forget_closed_loops()
                if not self._watches:
                    self._descriptor = self._note()
                answer = ask()
                if answer is not None or (deadline is not None and loop.time() >= deadline):
                    return answer
                woken = self._watch(loop)
            timer = None if deadline is None else loop.call_at(deadline, _wake_one, woken)
            try:
                await woken
            finally:
                if timer is not None:
                    timer.cancel()
                self._leave(loop, woken)

    def wake(self) -> None:
        """All tasks, from any thread: what they ask for may be there, or never come."""
        with self.lock:
            watches, self._watches = self._watches, {}
        here = asyncio._get_running_loop()
        for loop, watch in watches.items():
            if loop is here:
                watch.finish(loop)
            else:
                with contextlib.suppress(RuntimeError):  # it was closed
                    loop.call_soon_threadsafe(watch.finish, loop)

    def _on_event(self, loop: _Loop, watch: _Watch) -> None:
        if self._watches.get(loop) is watch:  # else another loop was quicker
            self.wake()

    def _watch(self, loop: _Loop) -> _Future:
        watch = self._watches.get(loop)
        if watch is None:
            watch = _Watch(self._descriptor)
            loop.add_reader(watch.descriptor, self._on_event, loop, watch)
            self._watches[loop] = watch
        woken = loop.create_future()
        watch.waiting.add(woken)
        return woken

    def _leave(self, loop: _Loop, woken: _Future) -> None:
        with self.lock:
            watch = self._watches.get(loop)
            if watch is None or woken not in watch.waiting:
                return
            watch.waiting.remove(woken)
            if not watch.waiting:
                del self._watches[loop]
                watch.finish(loop)

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in self._watches if loop.is_closed()]:
            del self._watches[loop]


class Places:
    """A semaphore for tasks of any loops."""

    def __init__(self, count: int) -> None:
        self._lock = threading.RLock()
        self._free = count
        self._line: deque[_Future] = deque()
        self._given: set[_Future] = set()  # whose tasks have not heard of it yet

    async def take(self, timeout: float | None) -> bool:
        """False: there was none in that time."""
        if self._take_at_once():
            return True
        try:
            async with asyncio.timeout(timeout):
                await self.__aenter__()
        except TimeoutError:
            return False
        return True

    def _take_at_once(self) -> bool:
        with self._lock:
            self._take_from_closed_loops()
            if self._free == 0:
                return False
            self._free -= 1
            return True

    async def __aenter__(self) -> None:
        with self._lock:
            if self._take_at_once():
                return
            woken: _Future = asyncio.get_running_loop().create_future()
            self._line.append(woken)
        try:
            await woken
        except BaseException:
            self._leave(woken)
            raise
        with self._lock:
            self._given.discard(woken)

    async def __aexit__(self, *_: Any) -> None:
        with self._lock:
            self._give_back()

    def _give_back(self) -> None:
        while self._line:
            woken = self._line.popleft()
            with contextlib.suppress(RuntimeError):  # its loop was closed
                woken.get_loop().call_soon_threadsafe(_wake_one, woken)
                self._given.add(woken)
                return
        self._free += 1

    def _leave(self, woken: _Future) -> None:
        with self._lock:
            if woken in self._given:
                self._given.remove(woken)
                self._give_back()
            elif woken in self._line:
                self._line.remove(woken)

    def _take_from_closed_loops(self) -> None:
        for woken in [one for one in self._given if one.get_loop().is_closed()]:
            self._given.remove(woken)
            self._give_back()
