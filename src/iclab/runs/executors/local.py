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
from collections.abc import Generator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

from iclab.runs.executors.job import Job
from iclab.runs.payload import Failed, Measured
from iclab.runs.threads import set_thread_variables


def run_local(jobs: Sequence[Job], threads: int, workers: int) -> Generator[Measured | Failed, None, None]:
    """Run the jobs on ``workers`` processes and yield what became of each, in the order in which they end.

    Closing the iterator, or an exception such as Ctrl-C, ends the workers.
    """
    todo: SimpleQueue[Job] = SimpleQueue()
    for job in jobs:
        todo.put(job)
    outcomes: SimpleQueue[Measured | Failed] = SimpleQueue()
    crew = [_Worker(todo, outcomes, threads) for _ in range(min(workers, len(jobs)))]
    try:
        for worker in crew:
            worker.start()
        for _ in jobs:
            yield outcomes.get()
    finally:
        for worker in crew:
            worker.stop()


class _Worker(Thread):
    """Keeps one process busy with jobs, and replaces it when it dies."""

    def __init__(self, todo: SimpleQueue[Job], outcomes: SimpleQueue[Measured | Failed], threads: int) -> None:
        super().__init__(daemon=True)
        self._todo, self._outcomes, self._threads = todo, outcomes, threads
        self._stopping = Event()
        self._starting = Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                job = self._todo.get_nowait()
            except Empty:
                break
            outcome = self._perform(job)
            if outcome is not None:
                self._outcomes.put(outcome)

    def stop(self) -> None:
        """End the process, in the middle of a cell if need be."""
        with self._starting:
            self._stopping.set()
            if self._process is not None:
                self._process.kill()
        if self.ident is not None:
            self.join()
        if self._process is not None:
            _discard(self._process)

    def _perform(self, job: Job) -> Measured | Failed | None:
        """What became of a job; ``None`` if the worker was told to stop meanwhile."""
        try:
            process = self._running_process()
        except OSError as error:
            return Failed(job.cell, f"no worker process can be started: {error}", "")
        if process is None:
            return None
        header, values = _ask(
            process, {"cell": job.cell, "kind": job.kind, "config": job.config, "threads": self._threads}
        )
        if header is None:
            code = process.wait()
            if self._stopping.is_set():
                return None
            return Failed(job.cell, f"the worker process {_ending(code)}", "No traceback: the process is gone.\n")
        if "record" in header:
            return Measured(job.cell, header["record"], values)
        return Failed(job.cell, header["reason"], header["details"])

    def _running_process(self) -> subprocess.Popen[bytes] | None:
        with self._starting:
            if self._stopping.is_set():
                return None
            if self._process is not None and self._process.poll() is not None:
                _discard(self._process)
                self._process = None
            if self._process is None:
                self._process = _start(self._threads)
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
        env=environment,
        start_new_session=True,
    )


def _discard(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that was killed or died, and close its pipes."""
    process.wait()
    for pipe in (process.stdin, process.stdout):
        # Closing flushes what the process did not live to read.
        with suppress(BrokenPipeError):
            if pipe is not None:
                pipe.close()


def _ask(process: subprocess.Popen[bytes], job: dict[str, Any]) -> tuple[dict[str, Any] | None, bytes]:
    """The answer of a worker; ``None`` if it died before it was complete."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(job).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        return None, b""
    line = process.stdout.readline()
    if not line.endswith(b"\n"):
        return None, b""
    header = json.loads(line)
    values = process.stdout.read(header["size"])
    return (header, values) if len(values) == header["size"] else (None, b"")


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code} in the middle of the cell"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
