"""The thread behind a ProcessPoolExecutor: takes results in, hands calls out, minds processes."""

from __future__ import annotations

import os
import secrets
import select
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, _base
from concurrent.futures import process as futures_process
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from traceback import format_exception
from typing import Any

from . import _core, pickles, pool_worker, trace
from .queues import SimpleQueue
from .runtime import shared

_os: Any = os  # eventfd, which not every list of its names has
_process: Any = futures_process

_SPIN = 0.00005  # results come in bursts
_MOST_HELD = 48  # results whose arrays somebody holds; more are copied
_DEATHS = 16  # in a row, without a result: then it is not the calls


def settle(tell: Callable[[Any], None], outcome: Any) -> None:
    """What its callbacks raise (concurrent.futures lets SystemExit through) is no other call's."""
    try:
        tell(outcome)
    except BaseException:
        _base.LOGGER.exception("gantry: a callback of a call raised")


class Work:
    __slots__ = ("args", "carried", "fn", "future", "kwargs", "number", "put", "runs")

    def __init__(self, number: int, fn: Any, args: Any, kwargs: Any) -> None:
        self.number, self.fn, self.args, self.kwargs = number, fn, args, kwargs
        self.future: Future[Any] = Future()
        self.runs = False  # it has been handed out
        self.put = 0  # its number among what was put
        self.carried = trace.carried()  # where it was submitted


class Pool:
    """What an executor and its manager share. The executor may be forgotten before.

    I1: a Work is in `works` until its future is done. I2: those that run are handed out, at most
    `room` of them; the others wait, in order. `lock` guards all of these.
    """

    def __init__(
        self, context: Any, workers: int, initializer: Any, initargs: Any, max_tasks: int | None,
        most_tries: int,
    ) -> None:  # fmt: skip
        self.context, self.workers, self.most_tries = context, workers, most_tries
        self.room = 2 * workers + 1  # as many wait for a worker as workers work, and one more
        self.spawns_at_once = context.get_start_method(allow_none=False) == "fork"
        self.lock = threading.Lock()
        self.pid = os.getpid()
        self.works: dict[int, Work] = {}
        self.waiting: deque[Work] = deque()
        self.running = 0
        self.idle = 0  # processes that have answered, less calls that found one idle
        self.processes: dict[int, Any] = {}
        self.broken = ""
        self.shutting_down = False
        self.manager: Manager | None = None
        self.calls = SimpleQueue(ctx=context, redeliver=most_tries > 0)
        self._put_lock = threading.RLock()
        self._puts = 0
        self._work_of_put: dict[int, int] = {}  # where calls may come back
        runtime, name = shared(), f"results-{secrets.token_hex(12)}"
        self.results = _core.Consumer()
        self.results.open(runtime._core, "inbox", name, None, {"senders": 2 * workers + 64})
        self.wake_descriptor = _os.eventfd(0, _os.EFD_CLOEXEC | _os.EFD_NONBLOCK)
        self._worker_arguments = (self.calls, runtime, name, initializer, initargs, max_tasks,
                                  most_tries)  # fmt: skip

    def wake(self) -> None:
        with self.lock:
            if self.wake_descriptor >= 0:
                _os.eventfd_write(self.wake_descriptor, 1)

    def hand_out(self) -> None:
        """Calls that wait, while there is room. Any thread."""
        while True:
            with self.lock:
                if not self.waiting or self.running >= self.room:
                    return
                work = self.waiting.popleft()
                work.runs = True
                self.running += 1
            if not work.future.set_running_or_notify_cancel():
                self.forget(work.number)
                continue
            try:
                call = (work.number, work.fn, work.args, work.kwargs)
                parts = pickles.dumps_item(call, work.carried)
                self._put(work, parts)
            except BaseException as error:
                self.forget(work.number)
                if not isinstance(error, Exception):  # Ctrl-C in submit()
                    settle(work.future.set_exception, error)
                    self.wake()
                    if threading.current_thread() is self.manager:
                        continue  # an object's own way to be pickled raised it
                    raise
                tb = "".join(format_exception(error))
                error.__cause__ = _process._RemoteTraceback(f'\n"""\n{tb}"""')
                settle(work.future.set_exception, error)
                self.wake()  # it may have been the last

    def _put(self, work: Work, parts: Any) -> None:
        with self._put_lock:
            self._puts += 1
            work.put = self._puts
            if self.most_tries:
                self._work_of_put[work.put] = work.number
            try:
                self.calls._put_parts(parts, partial(self._not_sent, work))
            except BaseException:
                self._puts -= 1
                raise

    def _not_sent(self, work: Work, error: BaseException) -> None:
        """By the feeder: what was put later has one number less."""
        with self._put_lock, self.lock:
            self._puts -= 1
            for other in self.works.values():
                if other.put > work.put:
                    other.put -= 1
            if self.most_tries:
                self._work_of_put = {
                    other.put: other.number
                    for other in self.works.values()
                    if other.put and other is not work
                }
            work.put = 0
        self.forget(work.number)
        settle(work.future.set_exception, error)
        self.wake()

    def forget(self, number: int) -> Work | None:
        with self.lock:
            work = self.works.pop(number, None)
            if work is not None and work.runs:
                self.running -= 1
        if work is not None:
            self._work_of_put.pop(work.put, None)
        return work

    def drop(self, work: Work) -> None:
        """It shall not run, if it does not yet."""
        with self.lock:
            if work.runs:
                return
            if work in self.waiting:
                self.waiting.remove(work)
            self.works.pop(work.number, None)

    def work_of_put(self, put: int) -> int:
        """-1: it is done."""
        with self._put_lock:
            return self._work_of_put.get(put, -1)

    def start_for_call(self) -> None:
        """A process, if none is idle; of fork, all at once, before there is a thread."""
        with self.lock:
            if self.spawns_at_once:
                while self.manager is None and len(self.processes) < self.workers:
                    self._start_process()
            elif self.idle > 0 and len(self.processes) >= min(self.workers, len(self.works)):
                self.idle -= 1
            elif len(self.processes) < self.workers:
                self._start_process()

    def replace_process(self) -> None:
        with self.lock:
            if self.spawns_at_once or len(self.works) > len(self.processes):
                self._start_process()

    def _start_process(self) -> None:
        process = self.context.Process(target=pool_worker.run, args=self._worker_arguments)
        process.start()
        self.processes[process.pid] = process

    def shut_down(self) -> None:
        if self.pid != os.getpid():
            return  # in a worker, which has a copy of what its parent had locked
        with self.lock:
            self.shutting_down = True
        self.wake()
        if self.manager is None:
            self.close()

    def close(self) -> None:
        """When all processes have ended."""
        self.calls.cancel_join_thread()
        self.calls.close()
        self.results.close()
        with self.lock:
            if self.wake_descriptor >= 0:
                os.close(self.wake_descriptor)
            self.wake_descriptor = -1
            self.manager = None


class Manager(threading.Thread):
    def __init__(self, pool: Pool) -> None:
        super().__init__(name="gantry-pool")
        self._pool = pool
        self._deaths = 0
        self._poll = select.poll()
        self._watched: dict[int, int] = {}  # sentinels, and whose they are
        for descriptor in (pool.results.descriptor(), pool.wake_descriptor):
            self._poll.register(descriptor, select.POLLIN)

    def run(self) -> None:
        try:
            self._manage()
        except BaseException as error:  # nobody would settle what is left
            self._break("".join(format_exception(error)))

    def _manage(self) -> None:
        while True:
            cause = self._take_results()
            if cause is None:
                cause = self._mind_processes()
            if cause is not None:
                return self._break(cause)
            with self._pool.lock:
                is_over = self._pool.shutting_down and not self._pool.works
            if is_over:
                return self._end()
            self._sleep()

    # Results.
    def _take_results(self) -> str | None:
        """All that are there; why the pool is broken."""
        end = self._pool.results
        while (core := end.receive(_SPIN) or end.receive(0)) is not None:
            self._deaths = 0
            try:
                result, _ = pickles.loads_item(core, end.held > _MOST_HELD)
            except BaseException as error:
                return "".join(format_exception(error))
            del core
            self._settle(*result)
            del result
            self._pool.hand_out()
        return None

    def _settle(self, number: int, kind: int, value: Any, leaving: int | None) -> None:
        if kind == pool_worker.GIVEN_UP:
            number = self._pool.work_of_put(number)
            value = BrokenProcessPool(f"{value} processes that worked on this call have died")
        if leaving is not None:
            self._part_with(leaving)
        else:
            self._pool.idle += 1
        work = self._pool.forget(number)
        if work is None:
            return  # it came back although it had been done
        if kind == pool_worker.RETURNED:
            settle(work.future.set_result, value)
        else:
            settle(work.future.set_exception, value)

    # Processes.
    def _part_with(self, pid: int) -> None:
        with self._pool.lock:
            process = self._pool.processes.pop(pid, None)
        if process is None:
            return
        if self._watched.pop(process.sentinel, None) is not None:
            self._poll.unregister(process.sentinel)
        process.join()
        process.close()
        self._pool.replace_process()

    def _mind_processes(self) -> str | None:
        with self._pool.lock:
            processes = dict(self._pool.processes)
        dead = [process for process in processes.values() if not process.is_alive()]
        for process in dead:
            if cause := self._take_results():  # what it had sent before
                return cause
            if process.pid not in self._pool.processes:
                continue
            code = process.exitcode
            self._deaths += 1
            if not self._pool.most_tries or code >= 0 or self._deaths > _DEATHS:
                return ""
            self._part_with(process.pid)
        return None

    def _sleep(self) -> None:
        with self._pool.lock:
            processes = list(self._pool.processes.values())
        for process in processes:
            if process.sentinel not in self._watched:
                self._watched[process.sentinel] = process.pid
                self._poll.register(process.sentinel, select.POLLIN)
        for descriptor, _ in self._poll.poll():
            if descriptor == self._pool.wake_descriptor:
                _os.eventfd_read(descriptor)

    # The end.
    def _break(self, cause: str) -> None:
        error = BrokenProcessPool(
            "A process in the process pool was terminated abruptly while the future was running "
            "or pending."
        )
        if cause:
            error.__cause__ = _process._RemoteTraceback(f"\n'''\n{cause}'''")
        with self._pool.lock:
            self._pool.broken = (
                "A child process terminated abruptly, the process pool is not usable anymore"
            )
            self._pool.shutting_down = True
            works = list(self._pool.works.values())
            self._pool.works.clear()
            self._pool.waiting.clear()
            processes = list(self._pool.processes.values())
        for work in works:
            if work.runs or work.future.set_running_or_notify_cancel():
                settle(work.future.set_exception, error)
        for process in processes:
            process.terminate()
        self._join()

    def _end(self) -> None:
        nothing = pickles.dumps_item(None)
        for _ in range(len(self._pool.processes)):
            self._pool.calls._put_parts(nothing)
        self._join()

    def _join(self) -> None:
        for process in self._pool.processes.values():
            process.join()
        self._pool.close()


managers: weakref.WeakSet[Manager] = weakref.WeakSet()
is_exiting = False


def _end_all() -> None:
    """Before the interpreter joins threads."""
    global is_exiting
    is_exiting = True
    running = list(managers)
    for manager in running:
        manager._pool.shut_down()
    for manager in running:
        manager.join()


os.register_at_fork(after_in_child=managers.clear)
threading._register_atexit(_end_all)  # type: ignore[attr-defined]
