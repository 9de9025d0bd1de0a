"""A cheap kind of experiment: the mean of coin throws, with ways to sleep, fail and crash."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from iclab.claims.claim import Claim, ClaimResult, Estimate
from iclab.claims.rules import judge
from iclab.errors import InputError
from iclab.experiments.kind import Config, ExperimentKind
from iclab.results.page import Figure, Panel, Report, Series, Table

if TYPE_CHECKING:
    from iclab.evaluation.measurement import Measurement
    from iclab.results.results import Results


class Mean(Config):
    kind: Literal["mean"] = "mean"
    shrinkage: float = Field(0.0, ge=0, le=1)


class Clipped(Config):
    kind: Literal["clipped"] = "clipped"
    bound: float = Field(1.5, gt=0)
    sides: Literal["one", "two"] = "two"


Estimator = Annotated[Mean | Clipped, Field(discriminator="kind")]


class Coin(Config):
    bias: float = Field(0.5, ge=0, le=1)
    faces: tuple[float, ...] = (0.0, 1.0)
    limit: int | None = None


class Trouble(Config):
    """What goes wrong, in the cells of which seed; nothing by default."""

    how: Literal["none", "raise", "exit", "kill", "nan", "twice", "print", "read", "draw"] = "none"
    seed: int = 0
    once: str = ""


class CoinConfig(Config):
    seed: int = Field(0, ge=0)
    coin: Coin = Coin()
    others: dict[str, Coin] = Field(default_factory=lambda: {"fair": Coin()})
    estimator: Estimator = Mean()
    estimators: dict[str, Estimator] = Field(default_factory=lambda: {"first": Mean(shrinkage=0.25)})
    num_throws: int = Field(32, ge=1)
    num_examples: tuple[int, ...] = (4, 8)
    seconds: float = 0.0
    log: str = ""
    trouble: Trouble = Trouble()


def run_cell(config: CoinConfig) -> list[Measurement]:
    import torch

    from iclab.evaluation.measurement import Measurement
    from iclab.prompts import Stream

    if config.log:
        with open(config.log, "a") as file:
            file.write(f"{config.seed} {config.coin.bias} {os.getpid()} {torch.get_num_threads()}\n")
    time.sleep(config.seconds)
    if config.trouble.how != "none" and config.trouble.seed == config.seed:
        _cause(config.trouble)
    generator = Stream(config.seed).child("throws").at(0)
    throws = torch.rand(config.num_throws, max(config.num_examples), generator=generator, dtype=torch.float64)
    low, high = config.coin.faces
    values = torch.where(throws < config.coin.bias, high, low)
    if isinstance(config.estimator, Mean):
        values = values * (1 - config.estimator.shrinkage)
    else:
        values = values.clamp(max=config.estimator.bound)
    measurements = [
        Measurement(
            learner, "squared_error", ((values[:, :n].mean(1) - target) ** 2).numpy()[None], "mean", n, {"part": part}
        )
        for learner, target in (("mean", config.coin.bias), ("off by one", config.coin.bias + 1))
        for part, n in enumerate(config.num_examples)
    ]
    if config.trouble.how == "nan" and config.trouble.seed == config.seed:
        measurements[0].samples[0, 3] = float("nan")
    if config.trouble.how == "twice" and config.trouble.seed == config.seed:
        measurements.append(measurements[0])
    return [*measurements, Measurement.exact("theory", "bias", config.coin.bias)]


def _cause(trouble: Trouble) -> None:
    if trouble.once:
        marker = Path(trouble.once)
        if marker.exists():
            return
        marker.touch()
    match trouble.how:
        case "raise":
            raise ArithmeticError("the coin\nrolled away")
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "print":
            print('{"record": {}}')
            os.write(1, b"raw bytes\n")
            sys.stdout.flush()


FAIR = Claim("coin", "the mean of many throws is near the bias", "tests", "squared error", "<", 0.5)


def fairness(results: Results) -> ClaimResult:
    row = results.select(metric="squared_error", learner="mean").iloc[-1]
    return judge(FAIR, Estimate.of(row), at=f"bias = {results.experiment['config']['coin']['bias']:g}")


def summarise(results: Results) -> Report:
    how = results.experiment["config"]["trouble"]["how"]
    if how == "read":
        raise KeyError("the coin\nthat nobody threw")
    if how == "draw":
        panel = Panel("", "x", "y", [Series("too short", [1.0, 2.0], [1.0])])
        return Report(figures=[Figure("broken", "", [panel])])
    table = results.select(metric="squared_error")
    rows = [[str(r["learner"]), int(r["num_examples"]), float(r["value"])] for r in table.to_dict("records")]
    return Report(
        claims=[fairness(results)],
        notes=[f"{len(rows)} errors were measured."],
        tables=[Table("errors", "Squared errors.", ["learner", "throws", "error"], rows)],
    )


def check(config: CoinConfig) -> None:
    if config.coin.limit is not None and max(config.num_examples) > config.coin.limit:
        raise InputError(f"num_examples goes to {max(config.num_examples)}; expected at most {config.coin.limit}")


KIND = ExperimentKind(CoinConfig, run_cell, lambda config: config.seconds, summarise, check)
