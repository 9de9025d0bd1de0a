"""Attacks by one outlier: against a known optimum, against a dense grid, and asked for what cannot be."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import iclab.evaluation.outlier_margins as outlier_margins
from iclab.errors import InputError
from iclab.evaluation import WorstOutliers, random_outliers, worst_outliers
from iclab.models import AttentionStack, GatedLinearAttention
from iclab.prompts import OutlierClassification, OutlierPrompts, Prompts, Stream

STREAM = Stream(5).child("attack")
LAW = OutlierClassification(8, 3, 2, 2, irrelevant_range=1.5, seed=2)
RADIUS = 3.0


def prompts(
    count: int = 12, examples: int = 6, queries: int = 1, distribution: OutlierClassification = LAW
) -> OutlierPrompts:
    return distribution.sample(Stream(1).child("test"), count, examples, queries, dtype=torch.float64)


def model(gated: bool, dim: int = 8) -> GatedLinearAttention:
    made = GatedLinearAttention(dim, gated=gated, stream=Stream(3), dtype=torch.float64)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64), alpha=0.15)
    return made


def best_of_linear(linear: GatedLinearAttention, p: OutlierPrompts, radius: float) -> Tensor:
    """``(P, B)``: F is linear in ``delta``, so the least margin is that without it, less ``radius |A x_q|``."""
    matrix = (linear.W_B.T @ linear.W_C).detach()
    query = torch.cat([p.queries[:, 0], torch.zeros(p.batch_size, 1, dtype=torch.float64)], 1) @ matrix.T
    tokens = torch.cat([p.examples, p.example_labels[..., None]], 2)
    each = p.example_labels * (tokens @ query[..., None])[..., 0]
    flipped = torch.cat([p.examples, -p.example_labels[..., None]], 2)
    lies = -p.example_labels * (flipped @ query[..., None])[..., 0]
    outputs = each.sum(1)[:, None] - each + lies
    return (outputs * p.query_targets - radius * query[:, :-1].norm(dim=1, keepdim=True)).T


def test_the_search_finds_the_optimum_that_is_known_and_random_directions_do_not():
    linear, p = model(gated=False), prompts()
    known = best_of_linear(linear, p, RADIUS)
    found = worst_outliers(linear, p, RADIUS, stream=STREAM)
    torch.testing.assert_close(found.margins, known, rtol=0, atol=1e-9)
    rival = random_outliers(linear, p, RADIUS, stream=STREAM, draws=93)
    assert rival.evaluations == found.evaluations == 93 * 6 * 12
    assert bool((found.margins < rival.margins).all())
    label = worst_outliers(linear, p, RADIUS, stream=STREAM, steps=0, restarts=1).margins
    reached = (label - rival.margins) / (label - known)
    assert 0.5 < float(reached.mean()) < 0.95  # of what can be had; in eight dimensions a random direction misses
    assert float(reached.max()) < 1 - 1e-4


def test_the_search_is_as_good_as_a_dense_grid_where_gates_make_the_margin_crooked():
    distribution = OutlierClassification(3, 2, 0, 1, seed=1)
    gated, p = model(gated=True, dim=3), prompts(4, 3, distribution=distribution)
    radius = 4.0
    axis = torch.linspace(-radius, radius, 41, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis, axis)
    length = grid.norm(dim=1, keepdim=True)
    grid = torch.cat(
        [grid[length[:, 0] <= radius], grid[length[:, 0] > radius] * radius / length[length > radius, None]]
    )
    found = worst_outliers(gated, p, radius, stream=STREAM, restarts=4, steps=60)
    for row in range(p.batch_size):
        for position in range(3):
            inputs = p.inputs[row].repeat(len(grid), 1, 1)
            inputs[:, position] += grid
            labels = p.labels[row].repeat(len(grid), 1)
            labels[:, position] *= -1
            with torch.no_grad():
                margins = gated(Prompts(inputs, labels, 3, trusted=True))[:, 0] * p.query_targets[row, 0]
            least = float(margins.min())
            assert float(found.margins[position, row]) <= least + 1e-3 * (1 + abs(least))


@pytest.mark.parametrize("learner", ["one layer", "stack"])
def test_what_is_found_keeps_its_bounds_and_is_what_the_model_says(learner: str):
    p = prompts()
    attacked = model(gated=True) if learner == "one layer" else AttentionStack(8, "gated", 2, dtype=torch.float64)
    before = [parameter.detach().clone() for parameter in attacked.parameters()]
    found = worst_outliers(attacked, p, RADIUS, stream=STREAM, positions=[0, 3, 5], steps=8, restarts=2)
    assert float(found.changes.norm(dim=-1).max()) <= RADIUS * (1 + 1e-9)
    starts = worst_outliers(attacked, p, RADIUS, stream=STREAM, positions=[0, 3, 5], steps=0, restarts=2)
    assert bool((found.margins <= starts.margins).all())
    assert bool((found.margins < starts.margins).any())
    changed = found.applied(p)
    changed._check_values()
    said = attacked.predict(changed)[:, 0] * p.query_targets[:, 0]
    torch.testing.assert_close(said, found.worst_margin, rtol=1e-9, atol=1e-9)
    moved = (changed.inputs != p.inputs).any(-1)
    assert bool((moved.sum(1) <= 1).all())
    assert changed.example_outliers.sum(1).tolist() == [1] * 12
    assert set(changed.example_outliers.nonzero()[:, 1].tolist()) <= {0, 3, 5}
    assert all(torch.equal(a, b) for a, b in zip(before, attacked.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in attacked.parameters())


def test_labels_follow_the_rule():
    p = prompts()
    assert p.targets is not None
    clean = p.targets[:, :6].T

    def shown(rule: str) -> Tensor:
        return random_outliers(model(True), p, 1.0, stream=STREAM, label_rule=rule, target_label=-1).labels

    assert torch.equal(shown("flipped"), -clean)
    assert bool((shown("target") == -1).all())
    drawn = shown("random")
    assert 0 < int((drawn == clean).sum()) < drawn.numel()
    search = worst_outliers(model(True), p, 1.0, stream=STREAM, label_rule="random", steps=1, restarts=1)
    assert torch.equal(search.labels, drawn)


def test_given_directions_are_taken_at_the_length_asked_for():
    found = random_outliers(model(True), prompts(), RADIUS, stream=STREAM, directions=LAW.outlier_patterns)
    cosines = found.changes @ (LAW.outlier_patterns / 3.0).T / RADIUS
    assert bool((cosines.amax(-1) > 1 - 1e-9).all())
    assert set(cosines.argmax(-1).flatten().tolist()) == {0, 1}


def test_memory_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch):
    def both() -> list[WorstOutliers]:
        p = prompts()
        search = worst_outliers(model(True), p, RADIUS, stream=STREAM, steps=5, restarts=2)
        return [search, random_outliers(model(True), p, RADIUS, stream=STREAM, draws=3)]

    whole = both()
    monkeypatch.setattr(outlier_margins, "_NUMBERS_AT_ONCE", 1)
    for one, other in zip(whole, both(), strict=True):
        torch.testing.assert_close(one.margins, other.margins, rtol=1e-9, atol=1e-9)
        assert one.evaluations == other.evaluations


def test_a_model_that_looks_at_no_input_is_left_where_it_starts():
    def constant(p: Prompts) -> Tensor:
        return p.inputs[:, p.num_examples :, 0] * 0 + 1

    p = prompts()
    found = worst_outliers(constant, p, RADIUS, stream=STREAM, steps=4, restarts=1)
    assert bool((found.changes == 0).all())
    assert torch.equal(found.worst_margin, p.query_targets[:, 0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"radius": 0.0}, "radius is 0.0; expected a finite number > 0"),
        ({"radius": float("nan")}, "radius is nan"),
        ({"positions": [0, 6]}, "a position is 6; expected an integer in \\[0, 5\\]"),
        ({"positions": []}, "positions are \\[\\]; expected at least one"),
        ({"positions": [1, 1]}, "and none twice"),
        ({"label_rule": "wrong"}, "label_rule"),
        ({"steps": -1}, "steps is -1"),
        ({"restarts": 0}, "restarts is 0"),
        ({"stream": 3}, "stream is 3; expected a Stream"),
        ({"prompts": prompts(queries=2)}, "6 examples and 2 queries; expected at least one example and one query"),
        ({"prompts": prompts(examples=0)}, "0 examples and 1 queries"),
    ],
)
def test_wrong_input_is_refused(changes: dict, message: str):
    arguments: dict[str, Any] = {"prompts": prompts(), "radius": 1.0, "stream": STREAM, "steps": 1, "restarts": 1}
    arguments |= changes
    with pytest.raises(InputError, match=message):
        worst_outliers(model(True), arguments.pop("prompts"), arguments.pop("radius"), **arguments)


@pytest.mark.parametrize("directions", [torch.zeros(1, 8), torch.ones(2, 7), torch.full((1, 8), torch.nan), [[1.0]]])
def test_directions_without_length_are_refused(directions: object):
    with pytest.raises(InputError, match="direction"):
        random_outliers(model(True), prompts(), 1.0, stream=STREAM, directions=directions)  # type: ignore[arg-type]


def test_outputs_that_are_not_finite_are_refused():
    def broken(p: Prompts) -> Tensor:
        return p.inputs[:, p.num_examples :, 0] * torch.nan

    with pytest.raises(InputError, match="not finite at a changed prompt"):
        worst_outliers(broken, prompts(), 1.0, stream=STREAM)


def test_the_example_of_the_page_runs():
    page = (Path(__file__).parents[2] / "docs" / "outliers_dynamics.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict = {}
    exec(example, names)
    assert names["found"].positions.tolist() == list(range(10))
