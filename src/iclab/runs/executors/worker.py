"""A worker process of the local engine: reads jobs from its standard input, answers on its standard output.

A job is one line of JSON. An answer is one line of JSON, followed by as many bytes of safetensors as it says.
The worker ends when its standard input does, in the middle of a cell too: so none outlives the process it works for.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO

from iclab.errors import InputError
from iclab.experiments.registry import load_kind
from iclab.experiments.validation import validate
from iclab.runs.payload import Failed, measure
from iclab.runs.threads import torch_threads


def main() -> None:
    """Serve until the standard input ends."""
    # Ctrl-C reaches every process of a terminal; what to do about it is for the parent to decide.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What the code of an experiment prints must not get between the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jobs: SimpleQueue[dict[str, Any]] = SimpleQueue()
    Thread(target=_listen, args=(jobs,), daemon=True).start()
    while True:
        job = jobs.get()
        header, values = _answer(job)
        _send(answers, header, values)


def _listen(jobs: SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin.buffer:
        jobs.put(json.loads(line))
    os._exit(0)


def _answer(job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    try:
        kind = load_kind(job["kind"])
        config = validate(kind.config, job["config"])
    except InputError as error:
        return {"reason": f"InputError: {error}", "details": "", "size": 0}, b""
    with torch_threads(job["threads"]):
        outcome = measure(job["cell"], kind, config, job["threads"])
    if isinstance(outcome, Failed):
        return {"reason": outcome.reason, "details": outcome.details, "size": 0}, b""
    return {"record": outcome.record, "size": len(outcome.values)}, outcome.values


def _send(answers: BinaryIO, header: dict[str, Any], values: bytes) -> None:
    try:
        answers.write(json.dumps(header).encode() + b"\n" + values)
        answers.flush()
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    main()
