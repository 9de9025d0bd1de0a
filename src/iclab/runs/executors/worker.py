"""A worker process of the local engine: reads jobs from its standard input, answers on its standard output.

A job is one line of JSON. An answer is one line of JSON, which names the cell and this process, followed by as many
bytes of safetensors as it says. The worker ends when its standard input does, in the middle of a cell too: so none
outlives the process it works for.
"""

from __future__ import annotations

import json
import os
import signal
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO

from iclab.execution import Execution
from iclab.runs.jobs import Failed, Job
from iclab.runs.payload import measure


def main() -> None:
    """Serve until the standard input ends."""
    # Signals reach every process of a terminal or a job; what to do about them is for the parent to decide.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    # The code of an experiment has nothing to read, and what it prints must not get between the answers.
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.register_at_fork(after_in_child=lambda: _leave(nothing, requests.fileno(), answers.fileno()))
    requested: SimpleQueue[dict[str, Any]] = SimpleQueue()
    Thread(target=_listen, args=(requests, requested), daemon=True).start()
    while True:
        request = requested.get()
        job = Job(**request["job"])
        header, values = _answer(job, Execution.from_json(request["execution"]))
        _send(answers, {"cell": job.cell, "pid": os.getpid(), **header}, values)


def _leave(nothing: int, *pipes: int) -> None:
    """A process that a cell forked is no worker: it has no pipes to the parent, and the usual answer to signals."""
    for pipe in pipes:
        os.dup2(nothing, pipe, inheritable=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _listen(requests: BinaryIO, requested: SimpleQueue[dict[str, Any]]) -> None:
    for line in requests:
        requested.put(json.loads(line))
    _end()


def _end() -> None:
    """End this process and those that its cells have started: they are of its session."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _answer(job: Job, execution: Execution) -> tuple[dict[str, Any], bytes]:
    outcome = measure(job, execution)
    if isinstance(outcome, Failed):
        return {"reason": outcome.reason, "details": outcome.details, "size": 0}, b""
    return {"record": outcome.record, "size": len(outcome.values)}, outcome.values


def _send(answers: BinaryIO, header: dict[str, Any], values: bytes) -> None:
    try:
        answers.write(json.dumps(header).encode() + b"\n" + values)
        answers.flush()
    except BrokenPipeError:
        _end()


if __name__ == "__main__":
    main()
