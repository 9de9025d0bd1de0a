"""Cells on several processes of this machine.

Each worker is a fresh Python with its own number of threads; only this process writes to the run folder. A worker that
dies (out of memory, a crash in a library) costs the cell it worked on and nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import asdict
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

from iclab.errors import check_integer, one_line
from iclab.execution import Execution
from iclab.runs.executors import Executor
from iclab.runs.jobs import Failed, Job, Measured
from iclab.runs.threads import available_cores, check_most, set_thread_variables


class Local(Executor):
    """Runs cells on processes of this machine; yields outcomes in the order in which cells end."""

    name = "local"

    def run(self, jobs: Sequence[Job], execution: Execution, workers: int) -> Generator[Measured | Failed, None, None]:
        todo: SimpleQueue[Job] = SimpleQueue()
        for job in jobs:
            todo.put(job)
        outcomes: SimpleQueue[Measured | Failed] = SimpleQueue()
        threads = [_Worker(todo, outcomes, execution) for _ in range(min(workers, len(jobs)))]
        try:
            for thread in threads:
                thread.start()
            for _ in jobs:
                yield outcomes.get()
        finally:
            for thread in threads:
                thread.stop()

    def num_workers(self, asked: int | None, execution: Execution) -> int:
        return check_most("workers", super().num_workers(asked, execution))

    def parallel(self, workers: int, execution: Execution) -> int:
        return max(1, min(workers, available_cores() // execution.threads))


class _Worker(Thread):
    """Keeps one process busy with jobs, and replaces it when it dies."""

    def __init__(self, todo: SimpleQueue[Job], outcomes: SimpleQueue[Measured | Failed], execution: Execution) -> None:
        super().__init__(daemon=True)
        self._todo, self._outcomes, self._execution = todo, outcomes, execution
        self._stopping = Event()
        self._starting = Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                job = self._todo.get_nowait()
            except Empty:
                break
            try:
                outcome = self._perform(job)
            except Exception as error:  # of this file itself: without an answer the run would wait for ever
                outcome = self._lost(job, error)
            if outcome is not None:
                self._outcomes.put(outcome)

    def stop(self) -> None:
        """End the process, in the middle of a cell if need be."""
        with self._starting:
            self._stopping.set()
            if self._process is not None:
                _kill(self._process)
        if self.ident is not None:
            self.join()
        if self._process is not None:
            _end(self._process)

    def _perform(self, job: Job) -> Measured | Failed | None:
        """What became of a job; ``None`` if the worker was stopped meanwhile."""
        try:
            process = self._running_process()
        except OSError as error:
            return Failed(job.cell, f"no worker process can be started: {error}", "")
        if process is None:
            return None
        request = {"job": asdict(job), "execution": self._execution.to_json()}
        header, values = _ask(process, request)
        if header is None:
            code = _end(process)
            if self._stopping.is_set():
                return None
            return Failed(job.cell, f"the worker process {_ending(code)}", "No traceback: the process is gone.\n")
        if (header.get("cell"), header.get("pid")) != (job.cell, process.pid):
            # Whatever this is, the answers after it could be of any cell.
            _end(process)
            found = f"got the answer of cell {header.get('cell')} from the process {header.get('pid')}"
            reason = f"the worker process {process.pid} lost its way: {found}"
            return Failed(job.cell, one_line(reason), "Its code disturbed the pipe to the worker, which was ended.\n")
        if "record" in header:
            return Measured(job.cell, header["record"], values)
        return Failed(job.cell, header["reason"], header["details"])

    def _lost(self, job: Job, error: Exception) -> Failed:
        """Return the failure of a job whose answer cannot be used, and end the worker process."""
        if self._process is not None:
            _end(self._process)
        reason = one_line(f"the answer of the worker process cannot be used: {type(error).__name__}: {error}")
        return Failed(job.cell, reason, "".join(traceback.format_exception(error)))

    def _running_process(self) -> subprocess.Popen[bytes] | None:
        with self._starting:
            if self._stopping.is_set():
                return None
            if self._process is not None and self._process.poll() is not None:
                _end(self._process)
                self._process = None
            if self._process is None:
                self._process = _start(self._execution.threads)
            return self._process


def _start(threads: int) -> subprocess.Popen[bytes]:
    environment = dict(os.environ)
    set_thread_variables(threads, environment)
    # The worker finds the modules that this process finds; -P keeps those of the working folder out otherwise.
    environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "iclab.runs.executors.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if _is_open(2) else subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a worker and the processes that its cells have started: they are of its session."""
    if process.returncode is None:
        # Not waited for yet, so that its number is still its own.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that is dead or is to be; an earlier death keeps its own."""
    _kill(process)
    code = process.wait()
    for pipe in (process.stdin, process.stdout):
        # Closing flushes what the process did not live to read.
        with suppress(BrokenPipeError):
            if pipe is not None:
                pipe.close()
    return code


def _ask(process: subprocess.Popen[bytes], request: dict[str, Any]) -> tuple[dict[str, Any] | None, bytes]:
    """The answer of a worker: ``None`` if it died before it was complete, ``{}`` if it makes no sense."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        return None, b""
    line = process.stdout.readline()
    if not line.endswith(b"\n"):
        return None, b""
    try:
        header = json.loads(line)
        size = check_integer("size", header["size"], 0)
    except (ValueError, KeyError, TypeError):
        return {}, b""
    values = process.stdout.read(size)
    return (header, values) if len(values) == size else (None, b"")


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code} in the middle of the cell"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
