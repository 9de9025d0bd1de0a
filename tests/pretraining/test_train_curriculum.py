"""Curricula: values as functions of the step, the laws they stand for, and those that are refused."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from iclab.errors import InputError
from iclab.links import make_link
from iclab.pretraining import Curriculum, Ramp
from iclab.pretraining.trainer.phases import Plan
from iclab.prompts import InputDistribution, SingleIndex, Stream
from train_support import CURRICULUM, DIM, build, distribution, run


def tensor(value: torch.Tensor | None) -> torch.Tensor:
    assert value is not None
    return value


def test_the_usual_recipe():
    """arXiv 2208.01066: 5 to 20 dimensions, one more each 2,000 steps, and 11 to 41 points, two more."""
    dims, points = Ramp(5, 20, 1, 2000), Ramp(11, 41, 2, 2000)
    assert [dims.at(step) for step in (0, 1999, 2000, 29_999, 30_000, 500_000)] == [5, 5, 6, 19, 20, 20]
    assert [points.at(step) for step in (0, 1999, 2000, 29_999, 30_000, 500_000)] == [11, 11, 13, 39, 41, 41]
    assert dims.end == points.end == 30_000
    assert isinstance(dims.at(7000), int)


@given(st.integers(1, 9), st.integers(0, 30), st.integers(1, 7), st.integers(1, 50), st.integers(0, 2000))
def test_ramps_never_shrink_and_end(start: int, rise: int, by: int, every: int, step: int):
    ramp = Ramp(start, start + rise, by, every)
    values = [ramp.at(t) for t in range(step, step + every + 1)]
    assert values == sorted(values)
    assert start <= values[0]
    assert values[-1] <= start + rise
    assert ramp.at(ramp.end) == start + rise
    assert ramp.end == 0 or ramp.at(ramp.end - 1) < start + rise
    assert [t for t in range(1, ramp.end + 2) if ramp.at(t) != ramp.at(t - 1)] == list(ramp.changes())


def test_fractions_reach_the_end_in_whole_stairs():
    assert list(Ramp(0, 0.3, 0.1, 10).changes()) == [10, 20, 30]
    assert Ramp(0, 0.3, 0.1, 10).at(30) == 0.3


def test_phases_agree_with_the_step():
    plan = Plan(distribution(), 6, 24, CURRICULUM)
    assert [phase.start for phase in plan.phases] == [0, 5, 7, 8, 9, 10, 14, 16, 18]
    assert [plan.at(step).num_examples for step in (0, 4, 5, 9, 10, 23)] == [2, 2, 4, 4, 6, 6]
    for step in range(24):
        phase = plan.at(step)
        assert phase.start <= step < phase.stop
        assert dict(phase.values) == CURRICULUM.values(step)
    assert plan.work(0, 24) == 5 * 2 + 5 * 4 + 14 * 6
    assert plan.work(3, 7) == 2 * 2 + 2 * 4


@pytest.mark.parametrize("covariance", [None, ((2.0, 0.5, 0, 0), (0.5, 1.0, 0.3, 0), (0, 0.3, 1.0, 0), (0, 0, 0, 1.0))])
def test_active_dimensions(covariance):
    """Inputs beyond the active coordinates are zero, the support lies within, and labels follow from what is shown."""
    full = SingleIndex(4, 2, "he3", support=(3, 1), inputs=InputDistribution(covariance=covariance))
    shown = []
    for active in (2, 3, 4):
        prompts = full.adjusted(ambient_dim=active).sample(Stream(0), 512, 5, 1, dtype=torch.float64)
        alive = prompts.inputs.abs().amax((0, 1)) > 0
        shown.append(set(torch.nonzero(alive).flatten().tolist()))
        index = (prompts.inputs * tensor(prompts.directions)[:, None]).sum(-1)
        torch.testing.assert_close(prompts.labels, make_link("he3")(index))
        expected = torch.eye(4) if covariance is None else torch.tensor(covariance)
        expected = expected * alive[:, None] * alive
        flat = prompts.inputs.flatten(0, 1)
        torch.testing.assert_close(flat.T @ flat / len(flat), expected.double(), atol=0.12, rtol=0)
    assert shown == [{1, 3}, {0, 1, 3}, {0, 1, 2, 3}]


def test_intrinsic_dimensions_are_the_first_of_the_support():
    full = SingleIndex(6, 3, "he1", support=(4, 0, 2))
    for intrinsic, expected in ((1, {4}), (2, {0, 4}), (3, {0, 2, 4})):
        prompts = full.adjusted(intrinsic_dim=intrinsic).sample(Stream(0), 64, 3)
        assert set(torch.nonzero(tensor(prompts.directions).abs().amax(0)).flatten().tolist()) == expected
    last = full.adjusted(ambient_dim=6, intrinsic_dim=3, noise=0.0).sample(Stream(0), 16, 3)
    assert torch.equal(last.inputs, full.sample(Stream(0), 16, 3).inputs)
    assert torch.equal(last.labels, full.sample(Stream(0), 16, 3).labels)


def test_intrinsic_dimensions_of_a_rotated_support():
    full = SingleIndex(5, 3, "he1", rotation="random")
    prompts = full.adjusted(intrinsic_dim=2).sample(Stream(0), 64, 3, dtype=torch.float64)
    directions = tensor(prompts.directions)
    columns = tensor(full.rotation)[:, list(full.support[:2])]
    torch.testing.assert_close(directions @ columns @ columns.T, directions)
    with pytest.raises(InputError, match="rotated support"):
        full.adjusted(ambient_dim=4)


def test_noise():
    noisy = distribution(noise=0.4)
    prompts = noisy.adjusted(noise=0.25).sample(Stream(0), 16, 3, dtype=torch.float64)
    torch.testing.assert_close(
        (prompts.labels - tensor(prompts.targets)).abs(), torch.full((16, 4), 0.25, dtype=torch.float64)
    )


def test_training_sees_the_curriculum(tmp_path):
    """Every line of metrics belongs to one stage, and the losses are those of the prompts of that stage."""
    seen = []

    class Watching(type(build())):
        def prefixes(self, prompts):
            active = int((prompts.inputs.abs().amax((0, 1)) > 0).sum())
            seen.append({"num_examples": prompts.num_examples, "ambient_dim": active})
            return super().prefixes(prompts)

    run(Watching(), curriculum=CURRICULUM, folder=tmp_path, log_every=4)
    for step, values in enumerate(seen):
        assert values.items() <= CURRICULUM.values(step).items(), step
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [4, 5, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24]
    for line in lines:
        assert line["curriculum"] == CURRICULUM.values(line["step"] - 1)


def test_a_law_of_ones_own():
    class Scaled(SingleIndex):
        scale = 1.0

        def adjusted(self, **values):
            if set(values) != {"scale"}:
                raise InputError(f"a curriculum names {', '.join(values)}; expected scale")
            other = Scaled(DIM, 3, link="he1")
            other.scale = values["scale"]
            return other

        def draw_chunks(self, *arguments, **options):
            chunk = super().draw_chunks(*arguments, **options)
            chunk.labels.mul_(self.scale)
            return chunk

    _, record = run(
        prompts=Scaled(DIM, 3, link="he1"), curriculum=Curriculum(scale=Ramp(1e-3, 1, 0.999, 20)), log_every=4
    )
    assert float(record.metrics[4]["loss"]) < 0.2 < float(record.metrics[5]["loss"])
    with pytest.raises(InputError, match="expected scale"):
        run(prompts=Scaled(DIM, 3, link="he1"), curriculum=Curriculum(size=Ramp(1, 2, 1, 5)))


WRONG = [
    ({"num_examples": Ramp(2, 6, 1, 6)}, "ends at step 24 and training has 24 steps"),
    ({"num_examples": Ramp(2, 5, 1, 2)}, "the ramp of num_examples stops at 5 and training is for num_examples = 6"),
    ({"num_examples": Ramp(2, 8, 1, 2)}, "reaches prompts of 8 examples and the model has positions for 7"),
    ({"num_examples": Ramp(0, 6, 1, 2)}, "num_examples of a curriculum is 0"),
    ({"num_examples": Ramp(2, 6, 0.5, 2)}, "num_examples of a curriculum is 2.5"),
    ({"ambient_dim": Ramp(2, 5, 1, 2)}, "the ramp of ambient_dim stops at 5 and training is for ambient_dim = 4"),
    ({"ambient_dim": Ramp(2, 4, 1, 2)}, "ambient_dim = 2 with intrinsic_dim = 3"),
    ({"ambient_dim": Ramp(2, 4, 1, 5), "intrinsic_dim": Ramp(2, 3, 1, 2)}, "ambient_dim = 2 with intrinsic_dim = 3"),
    ({"intrinsic_dim": Ramp(0, 3, 1, 2)}, "intrinsic_dim of a curriculum is 0"),
    ({"dims": Ramp(1, 3, 1, 2)}, "names 'dims'; expected num_examples, ambient_dim, intrinsic_dim, noise"),
]


@pytest.mark.parametrize(("ramps", "message"), WRONG)
def test_wrong_curricula(ramps: dict[str, Ramp], message: str, tmp_path):
    with pytest.raises(InputError) as caught:
        run(build(max_examples=7), curriculum=Curriculum(**ramps), folder=tmp_path / "new")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((6, 2, 1, 5), "goes from 6 to 2 by 1; expected one that grows"),
        ((2, 6, 0, 5), "by 0; expected one that grows"),
        ((2, 6, -1, 5), "by -1; expected one that grows"),
        ((2, 6, 1, 0), "every of a ramp is 0"),
        ((2, float("inf"), 1, 5), "stop of a ramp is inf"),
        (("2", 6, 1, 5), "start of a ramp is '2'"),
        ((0, 1, 1e-6, 5), "has 1000000 steps; expected at most 10000"),
    ],
)
def test_wrong_ramps(numbers: tuple, message: str):
    with pytest.raises(InputError) as caught:
        Ramp(*numbers)
    assert message in str(caught.value)
    with pytest.raises(InputError, match="the curriculum of noise is 3; expected a Ramp"):
        Curriculum(noise=3)  # type: ignore[arg-type]


def test_a_law_that_cannot_be_adjusted():
    class Other(SingleIndex):
        pass

    with pytest.raises(InputError, match="asked of a Other; give that class a method adjusted"):
        run(prompts=Other(DIM, 3, link="he1", noise=0.1), curriculum=Curriculum(noise=Ramp(0, 0.1, 0.1, 5)))
