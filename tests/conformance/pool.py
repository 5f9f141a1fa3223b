"""Runs cases in forked workers, so that a case that kills its process costs only itself.

The parent imports everything once and never touches the device; each worker takes a chunk of
cases, writes a line before and after each, and exits. When a worker dies or hangs, the case in
flight is the culprit: it is recorded with the signal and the stack, and the rest of the chunk goes
to a new worker.
"""

from __future__ import annotations

import faulthandler
import json
import os
import selectors
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from .case import Case, Result, Skip, Status

Runner = Callable[[Case, Result], None]
_LOG_TAIL_CHARACTERS = 2000
_POLL_SECONDS = 1.0


def run_case(case: Case, runner: Runner) -> Result:
    """Runs one case in this process; whatever it raises becomes its failure."""
    result = Result(case)
    start = time.monotonic()
    try:
        runner(case, result)
    except Skip as skip:
        result.status, result.reason = Status.SKIPPED, str(skip)
    except Exception as error:  # noqa: BLE001 - a broken check is a failed case
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        result.fail(f"{type(error).__name__} at {place}: {error}")
    result.seconds = time.monotonic() - start
    return result


class _Worker:
    """A forked child and what the parent knows of its progress."""

    def __init__(self, chunk: Sequence[Case], runner: Runner) -> None:
        self.remaining = deque(chunk)
        self.in_flight: Case | None = None
        self.since = time.monotonic()
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self._buffer = b""
        self.read_end, write_end = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.read_end)
            _child(chunk, runner, write_end, self.log)
        os.close(write_end)

    def receive(self) -> tuple[list[Result], bool]:
        """Results that have arrived, and whether the pipe is at its end."""
        data = os.read(self.read_end, 1 << 16)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        results = []
        for line in lines:
            self.since = time.monotonic()
            message = json.loads(line)
            if message is None:
                self.in_flight = self.remaining.popleft()
            else:
                self.in_flight = None
                results.append(Result.from_json(message))
        return results, not data

    def close(self) -> int:
        os.close(self.read_end)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def log_tail(self) -> str:
        """The end of what the worker printed, or what surrounds the report of a fatal error."""
        self.log.seek(0)
        text = self.log.read().decode(errors="replace").strip()
        fatal = text.find("Fatal Python error")
        if fatal < 0:
            return text[-_LOG_TAIL_CHARACTERS:]
        return text[max(0, fatal - _LOG_TAIL_CHARACTERS) :][: 2 * _LOG_TAIL_CHARACTERS]


def _child(chunk: Sequence[Case], runner: Runner, write_end: int, log: IO[bytes]) -> None:
    try:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        faulthandler.enable(file=log.fileno(), all_threads=False)
        warnings.simplefilter("ignore")  # the log is for what a crash prints
        for case in chunk:
            os.write(write_end, b"null\n")
            line = json.dumps(run_case(case, runner).to_json())
            _write_all(write_end, line.encode() + b"\n")
    finally:
        # Skips interpreter teardown: what runs there is not the case's doing.
        os._exit(0)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def run_cases(
    cases: Iterable[Case],
    runner: Runner,
    *,
    jobs: int = 2,
    chunk_size: int = 32,
    timeout_seconds: float = 600.0,
) -> Iterator[Result]:
    """Yields a result for every case, in the order in which they finish."""
    queue = deque(_chunks(list(cases), chunk_size))
    selector = selectors.DefaultSelector()
    workers: set[_Worker] = set()
    try:
        while queue or workers:
            while queue and len(workers) < jobs:
                worker = _Worker(queue.popleft(), runner)
                workers.add(worker)
                selector.register(worker.read_end, selectors.EVENT_READ, worker)
            before = time.monotonic()
            events = selector.select(timeout=_POLL_SECONDS)
            _forgive(workers, time.monotonic() - before - _POLL_SECONDS)
            for key, _ in events:
                worker = key.data
                results, ended = worker.receive()
                yield from results
                if ended:
                    selector.unregister(worker.read_end)
                    workers.remove(worker)
                    yield from _finish(worker, queue, worker.close())
            for worker in [w for w in workers if time.monotonic() - w.since > timeout_seconds]:
                os.kill(worker.pid, signal.SIGKILL)
                selector.unregister(worker.read_end)
                workers.remove(worker)
                worker.close()
                yield from _finish(worker, queue, None)
    finally:
        for worker in workers:
            os.kill(worker.pid, signal.SIGKILL)
            worker.close()


def _forgive(workers: Iterable[_Worker], paused_seconds: float) -> None:
    """Time in which this process was stopped is not charged to the workers, stopped with it."""
    if paused_seconds > _POLL_SECONDS:
        for worker in workers:
            worker.since += paused_seconds


def _finish(worker: _Worker, queue: deque[list[Case]], exit_code: int | None) -> list[Result]:
    """Charges an unfinished case to the worker's end and queues the cases behind it."""
    culprits = []
    if worker.in_flight is None and worker.remaining:
        worker.in_flight = worker.remaining.popleft()
    if worker.in_flight is not None:
        result = Result(worker.in_flight)
        result.bit_equal = False
        if exit_code is None:
            result.status = Status.TIMED_OUT
            result.failures = ["no answer in time"]
        else:
            result.status = Status.CRASHED
            result.failures = [f"{_cause(exit_code)}\n{worker.log_tail()}"]
        culprits.append(result)
    if worker.remaining:
        queue.appendleft(list(worker.remaining))
    worker.log.close()
    return culprits


def _cause(exit_code: int) -> str:
    if exit_code < 0:
        return f"killed by {signal.Signals(-exit_code).name}"
    return f"exited with {exit_code} in the middle of the case"


def _chunks(cases: list[Case], size: int) -> Iterator[list[Case]]:
    for start in range(0, len(cases), size):
        yield cases[start : start + size]


def summary_of(results: Iterable[Any]) -> dict[str, int]:
    counts = dict.fromkeys(map(str, Status), 0)
    for result in results:
        counts[str(result.status)] += 1
    return counts
