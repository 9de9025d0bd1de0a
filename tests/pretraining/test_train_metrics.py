"""What a training tells: lines, writers, progress; and how it stops when numbers or memory give out."""

import json
import math
import sys
import types
from typing import Any, cast

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from iclab.errors import InputError
from iclab.memory import memory_advice
from iclab.pretraining import NonFiniteLossError, TensorBoard, TrainProgress, WeightsAndBiases, load_checkpoint
from iclab.pretraining.trainer.metrics import Window
from iclab.prompts import Prompts
from train_support import CURRICULUM, EVERYTHING, Correlation, build, run, weights


def strict(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


def test_lines_are_strict_json_and_the_record(tmp_path):
    _, record = run(folder=tmp_path, **EVERYTHING)
    lines = [strict(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert tuple(lines) == record.metrics
    assert list(lines[0]) == ["step", "loss", "grad_norm", "learning_rate", "prompts", "seconds", "curriculum"]
    assert [line["step"] for line in lines if "evaluation" in line] == [6, 12, 18, 24]
    assert set(lines[-1]["evaluation"]) == {"loss", "last"}
    assert [line["prompts"] for line in lines] == [16 * line["step"] for line in lines]
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds)
    assert record.seconds >= seconds[-1]
    assert record.settings["schedule"] == "cosine"
    assert record.settings["model"]["class"] == "Correlation"
    assert (record.device, record.processes, record.threads) == ("cpu", 1, torch.get_num_threads())
    assert record.checkpoint == tmp_path / "step-000000024.safetensors"
    assert record.best_checkpoint == tmp_path / "best.safetensors"


def test_lines_are_means_over_their_steps():
    _, each = run(log_every=1)
    _, some = run(log_every=10)
    for start, stop, line in zip((0, 10, 20), (10, 20, 24), some.metrics, strict=True):
        for name in ("loss", "grad_norm"):
            values = [entry[name] for entry in each.metrics[start:stop]]
            assert line[name] == pytest.approx(math.fsum(values) / len(values), rel=1e-12)
    assert [line["step"] for line in some.metrics] == [10, 20, 24]


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, record = run(evaluate_every=12)
    assert not list(tmp_path.iterdir())
    assert record.checkpoint is None
    assert record.best_checkpoint is None
    assert record.best_step in (12, 24)


def test_progress():
    seen: list[TrainProgress] = []
    run(progress=seen.append, curriculum=CURRICULUM, log_every=6)
    assert [entry.step for entry in seen] == [5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 24]
    assert all(entry.steps == 24 for entry in seen)
    assert seen[-1].left == 0
    assert all(entry.left > 0 for entry in seen[:-1])
    # 5 steps of 2 examples are done, 5 of 4 and 14 of 6 are left.
    assert seen[0].left == pytest.approx(seen[0].elapsed * 104 / 10)


def test_tensorboard(tmp_path):
    _, record = run(folder=tmp_path / "training", writers=[TensorBoard(tmp_path / "board")], **EVERYTHING)
    board = EventAccumulator(str(tmp_path / "board")).Reload()
    names = {"loss", "grad_norm", "learning_rate", "prompts", "seconds", "evaluation/loss", "evaluation/last"}
    assert names | {f"curriculum/{name}" for name, _ in CURRICULUM.ramps} <= set(cast(list, board.Tags()["scalars"]))
    events = board.Scalars("loss")
    assert [event.step for event in events] == [line["step"] for line in record.metrics]
    assert [event.value for event in events] == pytest.approx([line["loss"] for line in record.metrics], rel=1e-6)


def test_tensorboard_hides_what_a_resumed_training_repeats(tmp_path):
    class Dies(Exception):
        pass

    def die(progress: TrainProgress) -> None:
        if progress.step >= 14:
            raise Dies

    options = {"folder": tmp_path / "training", "log_every": 1, "checkpoint_every": 10}
    with pytest.raises(Dies):
        run(progress=die, writers=[TensorBoard(tmp_path / "board")], **options)
    run(build(1), writers=[TensorBoard(tmp_path / "board")], **options)
    events = EventAccumulator(str(tmp_path / "board")).Reload().Scalars("loss")
    assert [event.step for event in events] == list(range(1, 25))


def test_wandb(monkeypatch, tmp_path):
    calls: list[tuple] = []

    class Run:
        def log(self, values: dict, step: int) -> None:
            calls.append(("log", step, values))

        def finish(self) -> None:
            calls.append(("finish",))

    def init(**options: Any) -> Run:
        calls.append(("init", options))
        return Run()

    module = types.ModuleType("wandb")
    module.init = init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    _, record = run(writers=[WeightsAndBiases("icl", name="one", id="7")], evaluate_every=12)
    options = calls[0][1]
    assert (options["project"], options["name"], options["id"], options["resume"]) == ("icl", "one", "7", "allow")
    assert options["config"]["learning_rate"] == 0.02
    assert [call[1] for call in calls[1:-1]] == [line["step"] for line in record.metrics]
    assert calls[2][2]["evaluation/loss"] == record.metrics[1]["evaluation"]["loss"]
    assert calls[-1] == ("finish",)


@pytest.mark.parametrize(("name", "build_writer"), [("tensorboard", TensorBoard), ("wandb", WeightsAndBiases)])
def test_missing_trackers(name: str, build_writer, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError) as caught:
        build_writer("somewhere")
    assert str(caught.value) == f'{name} is not installed; expected it for this writer: pip install "iclab[trackers]"'


def test_writers_are_closed_when_training_stops(tmp_path):
    closed = []

    class Writer:
        def start(self, settings, step):
            pass

        def write(self, line):
            raise RuntimeError("no space")

        def close(self):
            closed.append(True)

    with pytest.raises(RuntimeError, match="no space"):
        run(writers=[Writer()])
    assert closed == [True]


class Exploding(Correlation):
    """Its predictions, or only their gradients, stop being finite at one pass."""

    deadly, kind = 15, "loss"

    def prefixes(self, prompts: Prompts) -> torch.Tensor:
        self.deadly -= 1
        predictions = super().prefixes(prompts)
        if self.deadly:
            return predictions
        if self.kind == "loss":
            return predictions * float("inf")
        predictions.register_hook(lambda gradient: gradient * float("nan"))
        return predictions


class Harmless(Correlation):
    def __init__(self) -> None:
        super().__init__()
        self.load_state_dict(build().state_dict())


@pytest.mark.parametrize("kind", ["loss", "gradient"])
def test_stops_at_numbers_that_are_not_finite(kind: str, tmp_path):
    model = Exploding()
    model.load_state_dict(build().state_dict())
    model.kind = kind
    with pytest.raises(NonFiniteLossError) as caught:
        run(model, folder=tmp_path, checkpoint_every=5, log_every=10, warmup_steps=20)
    error = caught.value
    assert isinstance(error, FloatingPointError)
    assert error.step == 15
    assert error.learning_rate == pytest.approx(0.02 * 15 / 20)
    assert math.isfinite(error.loss) == (kind == "gradient")
    assert not math.isfinite(error.grad_norm)
    assert error.checkpoint == tmp_path / "step-000000010.safetensors"
    for part in ("at step 15", "learning rate 0.015", str(error.checkpoint), "lower the learning rate"):
        assert part in str(error)
    # The bad step was not taken, and the checkpoint can be gone on from.
    assert load_checkpoint(Exploding(), tmp_path) == 10
    run(Harmless(), folder=tmp_path / "whole", checkpoint_every=14, warmup_steps=20)
    before = Harmless()
    assert load_checkpoint(before, tmp_path / "whole" / "step-000000014.safetensors") == 14
    assert torch.equal(weights(model), weights(before))
    assert [strict(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [10]


def test_without_a_folder_no_checkpoint_is_named():
    with pytest.raises(NonFiniteLossError, match="no checkpoint was written") as caught:
        run(Exploding())
    assert caught.value.checkpoint is None


def test_the_right_step_is_named_where_numbers_are_read_late():
    """As on a GPU: three steps pass before anybody looks."""
    window = Window()
    for loss, norm in ((1.0, 2.0), (3.0, float("nan")), (float("nan"), float("nan"))):
        window.add(torch.tensor(loss), torch.tensor(norm))
    assert window.read() == 1
    assert window.losses[1] == 3.0
    assert math.isnan(window.norms[1])
    good = Window()
    for loss, norm in ((1.0, 2.0), (3.0, 4.0)):
        good.add(torch.tensor(loss), torch.tensor(norm))
    assert good.read() is None
    assert len(good) == 2
    assert good.means() == {"loss": 2.0, "grad_norm": 3.0}
    assert len(good) == 0


def test_an_evaluation_that_is_not_finite():
    class Late(Correlation):
        def prefixes(self, prompts: Prompts) -> torch.Tensor:
            return super().prefixes(prompts) * (1.0 if torch.is_grad_enabled() else float("inf"))

    with pytest.raises(InputError, match="the loss on the evaluation prompts is"):
        run(Late(), evaluate_every=4)


class Hungry(Correlation):
    def prefixes(self, prompts: Prompts) -> torch.Tensor:
        torch.empty(2**60, dtype=torch.uint8)
        return super().prefixes(prompts)


def test_out_of_memory():
    with pytest.raises(InputError) as caught:
        run(Hungry())
    message = str(caught.value)
    assert f"training Hungry asked for {2**60} bytes of memory that cpu does not have" in message
    assert "lower batch_size (16) or num_examples (6), or raise accumulate (1)" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (
            torch.OutOfMemoryError(
                "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 8 GiB"
            ),
            "20.00 GiB of memory",
        ),
        (RuntimeError("MPS backend out of memory (MPS allocated: 1 GB). Tried to allocate 3.5 GB"), "3.5 GB of memory"),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 64 bytes."), "64 bytes of memory"),
        (MemoryError(), "memory"),
    ],
)
def test_messages_of_other_devices(error: Exception, asked: str):
    with (
        pytest.raises(InputError, match=f"training it asked for {asked} that cuda:0 does not have; lower it"),
        memory_advice("training it", torch.device("cuda:0"), "lower it"),
    ):
        raise error


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="shapes disagree"), memory_advice("it", torch.device("cpu"), "lower it"):
        raise RuntimeError("shapes disagree")


def test_a_batch_beyond_this_machine_is_refused():
    with pytest.raises(InputError, match="a batch of 8000000000000 prompts would take"):
        run(batch_size=8 * 10**12)
