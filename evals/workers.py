"""Worker processes that questions in flight are spread over: one process runs Python on one core at a time.

A worker runs many questions at once, each in a thread; jobs and results go through pipes. It ends with the
process that started it, however that one ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import IO, Any

from triplewise.evals.journal import ToldCrashError

IN_FLIGHT = 16
"""Questions in flight for which a process of its own is worth its start."""


@dataclass(frozen=True, slots=True)
class Job:
    """A question for a worker: what `triplewise.evals.solver.ask` takes."""

    preset: str
    phases: Mapping[str, Any]
    settings: Mapping[str, Any]
    question: str
    entities: Mapping[str, str | None]

    @property
    def portable(self) -> bool:
        """Whether all of it can be sent: phases that are functions cannot."""
        return not any(callable(part) for part in self.phases.values())


@dataclass
class _Worker:
    """One process, and what it has not answered yet."""

    process: subprocess.Popen[bytes]
    waiting: dict[int, Future[dict[str, Any]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Workers:
    """Some worker processes; use `working`."""

    def __init__(self, count: int, threads: int) -> None:
        command = [sys.executable, "-c", "from triplewise.evals.workers import main; main()", str(threads)]
        self._workers = [
            _Worker(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for _ in range(count)
        ]
        self._number = 0
        self._readers = [
            threading.Thread(target=_read, args=(worker,), daemon=True) for worker in self._workers
        ]
        for reader in self._readers:
            reader.start()

    def ask(self, job: Job) -> dict[str, Any]:
        """The fields of the question's `Run`, from the worker that has the least to do; blocks.

        Raises:
            ToldCrashError: what the question crashed with. RuntimeError: the worker died.
        """
        alive = [worker for worker in self._workers if worker.process.poll() is None]
        if not alive:
            raise RuntimeError("every worker process has died; is there enough memory? try --workers 1")
        worker = min(alive, key=lambda w: len(w.waiting))
        answer: Future[dict[str, Any]] = Future()
        with worker.lock:
            self._number += 1
            worker.waiting[number := self._number] = answer
            try:
                pickle.dump((number, job), _pipe(worker.process.stdin))
                _pipe(worker.process.stdin).flush()
            except OSError as error:
                worker.waiting.pop(number, None)
                raise RuntimeError("a worker process has died") from error
        return answer.result()

    def close(self) -> None:
        """End the processes; what they were working on is dropped."""
        for worker in self._workers:
            worker.process.kill()
            worker.process.wait()
        for worker, reader in zip(self._workers, self._readers, strict=True):
            reader.join()
            _pipe(worker.process.stdout).close()
            with suppress(BrokenPipeError):  # half a job may have been on its way
                _pipe(worker.process.stdin).close()


_workers: ContextVar[Workers | None] = ContextVar("triplewise_eval_workers", default=None)


def current() -> Workers | None:
    """The workers of the running evaluation, None where it has none."""
    return _workers.get()


def workers_for(jobs: int) -> int:
    """How many worker processes so many questions in flight get: none for few, at most one a core."""
    return min(jobs // IN_FLIGHT, os.cpu_count() or 1)


@contextmanager
def working(count: int, threads: int) -> Iterator[None]:
    """Questions asked inside the block go to so many workers, with so many threads each; 0 for none."""
    if not count:
        yield
        return
    workers = Workers(count, threads)
    token = _workers.set(workers)
    try:
        yield
    finally:
        _workers.reset(token)
        workers.close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "workers are started with pipes"
    return pipe


def _read(worker: _Worker) -> None:
    """Hand a worker's answers to those who wait for them, until it ends."""
    while True:
        try:
            number, told, crash = pickle.load(_pipe(worker.process.stdout))
        except (EOFError, OSError, pickle.UnpicklingError):
            break
        with worker.lock:
            answer = worker.waiting.pop(number)
        if crash is None:
            answer.set_result(told)
        else:
            answer.set_exception(ToldCrashError(*crash))
    with worker.lock:
        left, worker.waiting = list(worker.waiting.values()), {}
    for answer in left:
        answer.set_exception(RuntimeError("the worker process of this question died"))


def serve(jobs: IO[bytes], answers: IO[bytes], threads: int) -> None:
    """Answer jobs until there are no more."""
    from triplewise.evals.solver import ask

    lock = threading.Lock()

    def work(number: int, job: Job) -> None:
        told: dict[str, Any] = {}
        crash = None
        try:
            told = ask(job)
        except Exception as error:  # noqa: BLE001 - told to the process that counts the question as crashed
            crash = (repr(error), "".join(traceback.format_exception(error)))
        with lock:
            pickle.dump((number, told, crash), answers)
            answers.flush()

    executor = ThreadPoolExecutor(threads)
    while True:
        try:
            number, job = pickle.load(jobs)
        except (EOFError, pickle.UnpicklingError):
            return
        executor.submit(work, number, job)


def main() -> None:
    """Serve on standard input and output, which nothing else may write to."""
    from triplewise.graphs.cli.app import relax_collector

    relax_collector()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started it
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers, int(sys.argv[1]))
    os._exit(0)  # questions that nobody waits for any more
