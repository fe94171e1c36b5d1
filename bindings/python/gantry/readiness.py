"""Waiting for an end's descriptor in any asyncio loop, by any number of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


class Readiness:
    """The tasks that wait for one end. Who is woken asks again; all are woken together."""

    def __init__(self, descriptor: Callable[[], int]) -> None:
        self._descriptor = descriptor  # asking for it takes note of having been woken
        self._watched = -1
        self._waiting: set[asyncio.Future[None]] = set()

    async def until(
        self, ask: Callable[[], Answer | None], timeout: float | None = None
    ) -> Answer | None:
        """The first answer of `ask`; None if there is none within `timeout`."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            if not self._waiting:  # else a note would take the event from those who wait
                self._watched = self._descriptor()
            answer = ask()
            if answer is not None or (deadline is not None and loop.time() >= deadline):
                return answer
            await self._sleep(loop, deadline)

    async def _sleep(self, loop: asyncio.AbstractEventLoop, deadline: float | None) -> None:
        woken: asyncio.Future[None] = loop.create_future()
        timer = None if deadline is None else loop.call_at(deadline, self._wake_one, woken)
        if not self._waiting:
            loop.add_reader(self._watched, self._wake, loop)
        self._waiting.add(woken)
        try:
            await woken
        finally:
            if timer is not None:
                timer.cancel()
            self._waiting.discard(woken)
            if not self._waiting:
                loop.remove_reader(self._watched)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self._watched)
        waiting, self._waiting = self._waiting, set()
        for woken in waiting:
            self._wake_one(woken)

    @staticmethod
    def _wake_one(woken: asyncio.Future[None]) -> None:
        if not woken.done():
            woken.set_result(None)
