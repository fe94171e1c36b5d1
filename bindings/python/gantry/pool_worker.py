"""What a process of a ProcessPoolExecutor does."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import _base
from concurrent.futures import process as futures_process
from typing import Any

from . import _core, pickles, trace
from .errors import PeerGone, reason_of
from .queues import Queue
from .runtime import Runtime

_process: Any = futures_process  # its exceptions bring their traceback along as text

# A result is (the call's number, what kind it is, its value, the process if it ends with that).
RETURNED, RAISED, GIVEN_UP, STOPPED = range(4)


def with_traceback(error: BaseException) -> Any:
    return _process._ExceptionWithTraceback(error, error.__traceback__)


class Results:
    """The worker's end of the pool's inbox."""

    def __init__(self, runtime: Runtime, inbox: str) -> None:
        self._end = _core.Producer()
        self._end.open(runtime._core, "inbox", inbox, None, {"slots": 64})

    def send(self, work: int, kind: int, value: Any, leaving: int | None) -> None:
        """What cannot be sent is answered by why; if that cannot be sent, by its text."""
        try:
            self._send(work, kind, value, leaving)
        except PeerGone:
            raise
        except BaseException as error:
            try:
                self._send(work, RAISED, with_traceback(error), leaving)
            except PeerGone:
                raise
            except BaseException:
                self._send(work, RAISED, RuntimeError(reason_of(error)), leaving)

    def _send(self, *result: Any) -> None:
        self._end.send(pickles.dumps_item(result), None, 0, 0)


def run(
    calls: Queue, runtime: Runtime, inbox: str, initializer: Callable[..., Any] | None,
    initargs: tuple[Any, ...], max_tasks: int | None, most_tries: int,
) -> None:  # fmt: skip
    """Works on calls until it gets None, or has done `max_tasks`."""
    trace.forget()
    if initializer is not None:
        try:
            initializer(*initargs)
        except BaseException:
            _base.LOGGER.critical("Exception in initializer:", exc_info=True)
            return  # its pool sees that it has ended
    try:
        _work(calls, Results(runtime, inbox), max_tasks, most_tries)
    except PeerGone:
        pass  # the pool's process has died


def _work(calls: Queue, results: Results, max_tasks: int | None, most_tries: int) -> None:
    done = 0
    while True:
        item = calls._take(None)
        assert item is not None
        number, tries = item.sequence, item.tries
        if 0 < most_tries < tries:  # before it is looked at: that may be what kills
            results.send(number, GIVEN_UP, tries - 1, None)
            item.done()
            continue
        call = calls._load(item)
        in_hand = item if most_tries else None
        del item  # its memory goes back with the arguments
        if call is None:
            if in_hand is not None:
                in_hand.done()
            return
        done += 1
        leaving = os.getpid() if done == max_tasks else None
        with trace.context(calls.traceparent):
            _answer(results, call, leaving)
        del call
        if in_hand is not None:
            in_hand.done()
        if leaving is not None:
            return


def _answer(results: Results, call: Any, leaving: int | None) -> None:
    work, fn, args, kwargs = call
    try:
        value = fn(*args, **kwargs)
    except BaseException as error:
        results.send(work, RAISED, with_traceback(error), leaving)
    else:
        results.send(work, RETURNED, value, leaving)
