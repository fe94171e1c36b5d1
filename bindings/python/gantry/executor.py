"""gantry.ProcessPoolExecutor: a drop-in for that of concurrent.futures."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from . import pool_manager
from .pool_manager import Manager, Pool, Work

Value = TypeVar("Value")
_MOST_TRIES = 3
_DESCRIPTORS, _OF_WORKER = 60, 18  # that a pool adds; more than one was seen to add


class ProcessPoolExecutor(Executor):
    """Calls and results travel through Gantry: arrays are not copied at their receiver, and are
    read-only there.

    `redeliver`: when a process is killed, another one takes its place and its calls, so that a
    call may run more than once; a call that has cost three processes (or as many as `redeliver`
    says) fails with BrokenProcessPool. Without it, all calls do, as in concurrent.futures.
    """

    def __init__(
        self, max_workers: int | None = None, mp_context: Any = None,
        initializer: Callable[..., Any] | None = None, initargs: tuple[Any, ...] = (), *,
        max_tasks_per_child: int | None = None, redeliver: bool | int = False,
    ) -> None:  # fmt: skip
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        if mp_context is None:
            mp_context = multiprocessing.get_context("spawn" if max_tasks_per_child else None)
        _check_max_tasks(max_tasks_per_child, mp_context)
        self._max_workers = max_workers or os.cpu_count() or 1
        self._mp_context = mp_context
        _make_room_for(self._max_workers)
        self._pool = pool = Pool(
            mp_context, self._max_workers, initializer, initargs, max_tasks_per_child,
            _MOST_TRIES if redeliver is True else int(redeliver),
        )  # fmt: skip
        self._processes: dict[int, Any] | None = pool.processes
        self._call_queue = pool.calls
        self._count = 0
        self._forgotten = weakref.finalize(self, pool.shut_down)
        self._forgotten.atexit = False

    @property
    def _broken(self) -> str:
        return self._pool.broken

    @property
    def _executor_manager_thread(self) -> Manager | None:
        return self._pool.manager

    def submit(self, fn: Callable[..., Value], /, *args: Any, **kwargs: Any) -> Future[Value]:
        """Has a worker call `fn`, which is pickled by its name."""
        pool = self._pool
        with pool.lock:
            if pool.broken:
                raise BrokenProcessPool(pool.broken)
            if pool.shutting_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if pool_manager.is_exiting:
                raise RuntimeError("cannot schedule new futures after interpreter shutdown")
            work = Work(self._count, fn, args, kwargs)
            self._count += 1
            pool.works[work.number] = work
            pool.waiting.append(work)
        try:
            if len(pool.processes) < self._max_workers or pool.manager is None:
                self._start()
        except BaseException:  # its caller has no future of it
            pool.drop(work)
            raise
        pool.hand_out()
        return work.future

    def _start(self) -> None:
        pool = self._pool
        pool.start_for_call()
        with pool.lock:
            if pool.manager is None:
                pool.manager = Manager(pool)
                pool_manager.managers.add(pool.manager)
                pool.manager.start()
                return
        pool.wake()  # to watch the new processes, too

    def map(
        self, fn: Callable[..., Value], *iterables: Iterable[Any], timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[Value]:  # fmt: skip
        """The results of `fn` for each element, in their order; `chunksize` elements are one item."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        chunks = super().map(
            partial(_run_chunk, fn), _chunks(zip(*iterables), chunksize), timeout=timeout
        )
        return _elements(chunks)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls, ends the workers when all is done, and waits for that if asked to."""
        if cancel_futures:
            with self._pool.lock:
                self._pool.shutting_down = True
            self._cancel()
        manager = self._pool.manager
        self._pool.shut_down()
        if wait and manager is not None:
            manager.join()

    def _cancel(self) -> None:
        with self._pool.lock:
            waiting, self._pool.waiting = list(self._pool.waiting), type(self._pool.waiting)()
        for work in waiting:
            work.future.cancel()
            work.future.set_running_or_notify_cancel()
            self._pool.forget(work.number)


def _check_max_tasks(most: int | None, context: Any) -> None:
    if most is None:
        return
    if not isinstance(most, int):
        raise TypeError("max_tasks_per_child must be an integer")
    if most <= 0:
        raise ValueError("max_tasks_per_child must be >= 1")
    if context.get_start_method(allow_none=False) == "fork":
        raise ValueError("max_tasks_per_child is incompatible with the 'fork' multiprocessing "
                         "start method; supply a different mp_context.")  # fmt: skip


def _make_room_for(workers: int) -> None:
    """Raises the limit of descriptors, if it has to be and can be."""
    own = len(os.listdir("/proc/self/fd")) + _DESCRIPTORS
    needed = own + _OF_WORKER * workers
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or needed <= limit:
        return
    if most != resource.RLIM_INFINITY and needed > most:
        raise OSError(errno.EMFILE, f"{workers} workers need {needed} descriptors here, and the "
                                    f"limit is {most}: raise it (ulimit -Hn), or use at most "
                                    f"{max((most - own) // _OF_WORKER, 0)}")  # fmt: skip
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))


def _chunks(arguments: Iterable[Any], size: int) -> Iterator[tuple[Any, ...]]:
    arguments = iter(arguments)
    while chunk := tuple(islice(arguments, size)):
        yield chunk


def _run_chunk(fn: Callable[..., Value], chunk: tuple[Any, ...]) -> list[Value]:
    return [fn(*arguments) for arguments in chunk]


def _elements(chunks: Iterable[list[Value]]) -> Iterator[Value]:
    """Keeps none that has been yielded."""
    for chunk in chunks:
        chunk.reverse()
        while chunk:
            yield chunk.pop()
