"""`train`: loss, gradient and optimiser against a loop that is written out; stateless data; what is refused."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import nn

from iclab.errors import InputError
from iclab.models.backbones.gpt2 import GPT2
from iclab.models.backbones.mamba import Mamba
from iclab.models.in_context import InContextModel
from iclab.pretraining import train
from iclab.pretraining.trainer.average import WeightAverage
from iclab.pretraining.trainer.batches import Batches
from iclab.pretraining.trainer.phases import Plan
from iclab.prompts import Prompts, SingleIndex, Stream
from iclab.settings.curriculum import Curriculum, Ramp
from iclab.settings.schedule import LearningRate
from train_support import DIM, EVERYTHING, SHORT, Correlation, build, distribution, run, weights


def by_hand(model: Correlation, optimiser: torch.optim.Optimizer, steps: int, **options: float) -> list[float]:
    """The loop that `train` stands for: batches from the stream by `sample`, the loss as a mean, plain torch."""
    losses = []
    for step in range(steps):
        batch = distribution().sample(Stream(3).child("train"), 16, 6, 0, start=16 * step)
        loss = nn.functional.mse_loss(model.prefixes(batch), batch.labels)
        optimiser.zero_grad()
        loss.backward()
        if "clip_norm" in options:
            nn.utils.clip_grad_norm_(model.parameters(), options["clip_norm"])
        optimiser.step()
        losses.append(float(loss.detach()))
    return losses


def test_equals_a_loop_written_out():
    expected = build()
    losses = by_hand(expected, torch.optim.Adam(expected.parameters(), lr=0.02), 24, clip_norm=1.0)
    model, record = run(log_every=1)
    torch.testing.assert_close(weights(model), weights(expected), rtol=1e-5, atol=1e-6)
    assert [line["loss"] for line in record.metrics] == pytest.approx(losses, rel=1e-5)
    assert [line["step"] for line in record.metrics] == list(range(1, 25))
    assert record.steps == 24
    assert record.metrics[-1]["prompts"] == 24 * 16


def test_adamw_decays_matrices_and_spares_biases():
    expected = build()
    groups = [
        {"params": [expected.read.weight], "weight_decay": 0.5},
        {"params": [expected.read.bias], "weight_decay": 0.0},
    ]
    by_hand(expected, torch.optim.AdamW(groups, lr=0.02, betas=(0.8, 0.95), eps=1e-6), 24)
    options: dict[str, Any] = {"optimiser": "adamw", "weight_decay": 0.5, "betas": (0.8, 0.95), "epsilon": 1e-6}
    model, _ = run(clip_norm=None, **options)
    torch.testing.assert_close(weights(model), weights(expected), rtol=1e-5, atol=1e-6)
    undecayed, _ = run(clip_norm=None, **options | {"weight_decay": 0.0})
    assert not torch.allclose(weights(model), weights(undecayed), atol=1e-3)


def test_a_models_own_groups_are_used():
    class Spared(Correlation):
        def parameter_groups(self, weight_decay: float) -> list[dict[str, object]]:
            return [{"params": list(self.parameters()), "weight_decay": 0.0}]

    model = Spared()
    model.load_state_dict(build().state_dict())
    run(model, optimiser="adamw", weight_decay=0.5)
    plain, _ = run(optimiser="adamw", weight_decay=0.0)
    assert torch.equal(weights(model), weights(plain))


def test_loss_on_queries():
    _, record = run(loss_on="queries", num_queries=3, steps=1, log_every=1)
    batch = distribution().sample(Stream(3).child("train"), 16, 6, 3)
    expected = (build().queries(batch) - batch.query_labels).square().mean().detach()
    assert record.metrics[0]["loss"] == pytest.approx(float(expected), rel=1e-6)


def test_split_changes_only_rounding():
    whole, first = run(log_every=1, model=build(dtype=torch.float64))
    split, second = run(log_every=1, model=build(dtype=torch.float64), accumulate=2)
    torch.testing.assert_close(weights(whole), weights(split), rtol=1e-10, atol=1e-12)
    uneven, _ = run(model=build(dtype=torch.float64), batch_size=40, accumulate=3)
    even, _ = run(model=build(dtype=torch.float64), batch_size=40)
    torch.testing.assert_close(weights(uneven), weights(even), rtol=1e-10, atol=1e-12)
    assert [line["loss"] for line in first.metrics] == pytest.approx(
        [line["loss"] for line in second.metrics], rel=1e-12
    )


@pytest.mark.parametrize(("accumulate", "size"), [(1, 1), (2, 1), (1, 3), (2, 2), (1, 5)])
def test_parts_of_a_batch_join_to_the_batch(accumulate: int, size: int):
    plan, stream = Plan(distribution(), 6, 10, Curriculum()), Stream(1)
    parts = [
        part
        for rank in range(size)
        for part in Batches(plan, stream, 40, 1, torch.float32, accumulate, rank, size).draw(7)
    ]
    assert len(parts) == accumulate * size
    assert torch.equal(
        Prompts.cat([part.prompts for part in parts]).inputs, distribution().sample(stream, 40, 6, 1, start=280).inputs
    )
    assert parts[0].first_chunk == 35


def test_drawing_ahead_changes_nothing():
    model, record = run(**EVERYTHING, prefetch=True)
    plain, other = run(**EVERYTHING, prefetch=False)
    assert torch.equal(weights(model), weights(plain))
    assert [line["loss"] for line in record.metrics] == [line["loss"] for line in other.metrics]


def test_an_error_while_drawing_ahead_arrives():
    class Broken(SingleIndex):
        def draw_chunks(self, *arguments, **options):
            if arguments[1] == 6 and arguments[2] == 0:
                raise InputError("no more prompts")
            return super().draw_chunks(*arguments, **options)

    with pytest.raises(InputError, match="no more prompts"):
        run(prompts=Broken(DIM, 3, link="he1"), prefetch=True)


@pytest.mark.parametrize(
    ("schedule", "middle", "late"),
    [("constant", 2.0, 2.0), ("cosine", 1.1, 0.2 + 0.9 * (1 - math.cos(math.pi / 4))), ("linear", 1.1, 0.65)],
)
def test_schedules(schedule: str, middle: float, late: float):
    rate = LearningRate(2.0, 90, 10, schedule, 0.1)
    assert [rate.at(step) for step in (0, 4, 9)] == pytest.approx([0.2, 1.0, 2.0])
    assert rate.at(10) == pytest.approx(2.0)
    assert rate.at(50) == pytest.approx(middle)
    assert rate.at(70) == pytest.approx(late)
    assert LearningRate(2.0, 90, 0, schedule).at(0) == pytest.approx(2.0)


def test_the_rate_reaches_the_optimiser():
    """Adam's first step moves every weight by the rate itself."""
    _model, record = run(steps=10, warmup_steps=5, clip_norm=None, log_every=1)
    assert [line["learning_rate"] for line in record.metrics[:5]] == pytest.approx([0.004, 0.008, 0.012, 0.016, 0.02])
    one, _ = run(steps=6, warmup_steps=5, learning_rate=1e-9)
    assert float((weights(one) - weights(build())).abs().max()) < 1e-7


def test_average():
    model = build()
    average, expected = WeightAverage(model, 0.5), weights(model)
    for step in range(30):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1)
        average.update(model, step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * weights(model)
    own = weights(model)
    with average.inside(model):
        torch.testing.assert_close(weights(model), expected)
    assert torch.equal(weights(model), own)


def test_average_is_returned_and_evaluated():
    model, record = run(average=0.9, evaluate_every=24)
    plain, other = run(evaluate_every=24)
    assert [line["loss"] for line in record.metrics] == [line["loss"] for line in other.metrics]
    assert not torch.equal(weights(model), weights(plain))
    batch = distribution().sample(Stream(3).child("evaluation"), 256, 6, 0)
    for trained, seen in ((model, record), (plain, other)):
        errors = (trained.prefixes(batch) - batch.labels).square().detach()
        assert seen.metrics[-1]["evaluation"]["loss"] == pytest.approx(float(errors.mean()), rel=1e-5)
        assert seen.metrics[-1]["evaluation"]["last"] == pytest.approx(float(errors[:, -1].mean()), rel=1e-5)
        assert seen.zero_line == pytest.approx(float(batch.labels.square().mean()), rel=1e-6)


def test_dropout_is_a_function_of_the_stream():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, _ = run(build(dropout=0.5))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    second, _ = run(build(dropout=0.5))
    other, _ = run(build(dropout=0.5), stream=Stream(4))
    assert torch.equal(weights(first), weights(second))
    assert not torch.equal(weights(first), weights(other))
    assert not torch.equal(weights(first), weights(run()[0]))


def test_modes_of_modules_come_back():
    model = build(dropout=0.5)
    model.dropout.eval()
    run(model)
    assert model.training
    assert not model.dropout.training


def test_frozen_weights_stay():
    model = build()
    model.read.bias.requires_grad_(False)
    run(model, average=0.9)
    assert torch.equal(model.read.bias, build().read.bias)
    assert not torch.equal(model.read.weight, build().read.weight)


def test_autocast_reaches_the_model_and_not_the_loss():
    seen = []

    class Watching(Correlation):
        def prefixes(self, prompts: Prompts) -> torch.Tensor:
            seen.append(self.read(prompts.examples).dtype)
            return super().prefixes(prompts)

    model = Watching()
    model.load_state_dict(build().state_dict())
    _, record = run(model, autocast="bfloat16", evaluate_every=24, evaluation_prompts=16, log_every=1)
    assert seen == [torch.bfloat16] * 24 + [torch.float32]
    _, plain = run(log_every=1)
    assert [x["loss"] for x in record.metrics] == pytest.approx([x["loss"] for x in plain.metrics], rel=0.02)
    assert record.metrics[3]["loss"] != plain.metrics[3]["loss"]
    assert {p.dtype for p in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("kind", ["mamba", "gpt2"])
def test_learns_linear_regression_in_context(kind: str):
    """Below the zero line at the end of a prompt, and at it before anything is known."""
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        if kind == "mamba":
            model = InContextModel(DIM, Mamba(32, 2, state_size=8))
        else:
            model = InContextModel(DIM, GPT2(32, 2, heads=4, positions="none"), layout="concatenated")
    prompts = SingleIndex(DIM, DIM, link="he1")
    options = {"num_examples": 12, "steps": 250, "batch_size": 32, "warmup_steps": 30, "learning_rate": 3e-3}
    _, record = train(model, prompts, stream=Stream(0), evaluate_every=100, **options)
    assert record.zero_line == pytest.approx(1.0, abs=0.1)
    assert record.metrics[-1]["evaluation"]["last"] < 0.5
    batch = prompts.sample(Stream(9), 256, 12)
    assert float((model.predict(batch) - batch.query_labels).square().mean()) < 0.5
    assert float((model.predict_prefixes(batch)[:, 0] - batch.labels[:, 0]).square().mean()) > 0.8


WRONG = [
    ({"steps": 0}, "steps is 0"),
    ({"batch_size": 12}, "batch_size is 12; expected an integer >= 8 and a multiple of 8"),
    ({"learning_rate": -1.0}, "learning_rate is -1.0"),
    ({"optimiser": "sgd"}, "optimiser is 'sgd'; expected one of adam, adamw"),
    ({"betas": (0.9, 1.0)}, "betas is (0.9, 1.0); expected 2 values, each a finite number >= 0 and < 1"),
    ({"weight_decay": -0.1}, "weight_decay is -0.1"),
    ({"warmup_steps": 24}, "warmup_steps is 24 and steps 24"),
    ({"schedule": "step"}, "schedule is 'step'; expected one of constant, cosine, linear"),
    ({"final_scale": 2}, "final_scale is 2"),
    ({"clip_norm": 0.0}, "clip_norm is 0.0"),
    ({"loss_on": "last"}, "loss_on is 'last'; expected one of prefixes, queries"),
    ({"autocast": "float16"}, "autocast is 'float16'"),
    ({"average": 1.0}, "average is 1.0"),
    ({"weight": 1}, "train has no setting 'weight', did you mean 'weight_decay'?"),
    ({"stream": 3}, "stream is 3; expected a Stream"),
    ({"curriculum": {"num_examples": 3}}, "expected a Curriculum"),
    ({"accumulate": 3}, "is 2 chunks of 8 and is split 3 times"),
    ({"device": "tpu"}, "device is 'tpu'; expected one of cpu, cuda, mps"),
    ({"keep": 0}, "keep is 0"),
    ({"evaluate_every": 0}, "evaluate_every is 0"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_wrong_arguments(change: dict, message: str, tmp_path):
    model = build()
    with pytest.raises(InputError) as caught:
        run(model, folder=tmp_path / "new", **change)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert torch.equal(weights(model), weights(build()))
    assert not list(tmp_path.glob("new/*"))


def test_wrong_models():
    with pytest.raises(InputError, match="dimension 4 and the model was built for 5"):
        run(build(input_dim=5))
    with pytest.raises(InputError, match="prompts of 6 examples and the model has positions for 5"):
        run(build(max_examples=5))
    with pytest.raises(InputError, match=r"expected a torch\.nn\.Module with input_dim"):
        run(nn.Linear(4, 4))
    with pytest.raises(InputError, match="float16; expected float32 or float64"):
        run(build().half())
    frozen = build().requires_grad_(False)
    with pytest.raises(InputError, match="has no parameter that requires a gradient; expected one to train"):
        run(frozen)
    model = copy.deepcopy(build())
    model.prefixes = None  # type: ignore[assignment]
    with pytest.raises(InputError, match=r"has no method prefixes\(prompts\)"):
        run(model)

    class Short(Correlation):
        def prefixes(self, prompts: Prompts) -> torch.Tensor:
            return super().prefixes(prompts)[:, 1:]

    with pytest.raises(InputError, match=r"the model's prefixes have shape \(16, 5\); expected \(16, 6\)"):
        run(Short())


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_an_absent_device():
    with pytest.raises(InputError, match="finds none here; use device='cpu'"):
        run(device="cuda")


@pytest.mark.parametrize("name", ["cuda", "mps"])
def test_on_another_device(name: str):
    """The same curve as on the CPU, to float32 rounding."""
    if not (torch.cuda.is_available() if name == "cuda" else torch.backends.mps.is_available()):
        pytest.skip(f"needs {name}")
    options = {key: value for key, value in EVERYTHING.items() if key not in SHORT}
    model, record = run(**options, device=name)
    _, plain = run(**options)
    assert record.device.startswith(name)
    assert next(model.parameters()).device.type == name
    assert [x["loss"] for x in record.metrics] == pytest.approx([x["loss"] for x in plain.metrics], rel=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # from inside torch's own compiler
def test_compiled():
    """The same losses to rounding; lengths that change are compiled again."""
    changing = Curriculum(num_examples=Ramp(4, 6, 1, 5))
    _, record = run(compile=True, curriculum=changing, evaluate_every=12, log_every=1)
    _, plain = run(curriculum=changing, evaluate_every=12, log_every=1)
    assert [x["loss"] for x in record.metrics] == pytest.approx([x["loss"] for x in plain.metrics], rel=1e-5)
    assert record.metrics[-1]["evaluation"] == pytest.approx(plain.metrics[-1]["evaluation"], rel=1e-5)
