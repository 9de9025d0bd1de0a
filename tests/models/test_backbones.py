"""What every backbone keeps: `step` and branches equal to `forward`, and outputs that depend on the past alone."""

import pytest
import torch
from torch import nn

from iclab.models import GPT2, LinearAttention, Mamba, branch_by_repetition, initial_values
from iclab.prompts import Stream

POSITIONS = ("learned", "none", "rotary")
KINDS = ["full", "constant_delta", "linear", *POSITIONS]


def build(kind: str) -> Mamba | LinearAttention | GPT2:
    """A small backbone in float64, its weights away from the zeros and ones that hide a missing term."""
    with initial_values(Stream(0).child(kind)):
        if kind in POSITIONS:
            model, spread = GPT2(12, 2, heads=3, max_positions=37, positions=kind), 0.4
        elif kind == "linear":
            model, spread = LinearAttention(12, 2, state_size=5), 0.2
        else:
            model, spread = Mamba(12, 2, state_size=5, dt_min=0.05, dt_max=1.0, selectivity=kind), 0.2
        for parameter in model.parameters():
            nn.init.normal_(parameter, parameter.mean().item(), spread)
    return model.double()


@pytest.mark.parametrize("kind", KINDS)
def test_step_equals_forward_at_every_length(kind: str) -> None:
    model = build(kind)
    x = torch.randn(3, 37, 12, dtype=torch.float64)
    start = cache = model.initial_cache(3)
    outputs = []
    for token in x.unbind(1):
        y, cache = model.step(token, cache)
        outputs.append(y)
    for length in (1, 2, 3, 4, 5, 7, 15, 16, 17, 31, 37):
        torch.testing.assert_close(torch.stack(outputs[:length], 1), model(x[:, :length]), rtol=1e-9, atol=1e-9)
    assert all((tensor == 0).all() for layer in start for tensor in layer)  # no step has written into it
    if kind in POSITIONS:
        assert all(tensor.shape[2] == 0 for layer in start for tensor in layer)
        assert all(tensor.shape == (3, 3, 37, 4) for layer in cache for tensor in layer)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [[0, 1, 2, 3, 4, 5, 6], [7, 7, 7], [5, 2, 7, 2, 0], [3]])
def test_branches_equal_repetition_with_all_gradients(kind: str, after: list[int]) -> None:
    model = build(kind)
    context = torch.randn(2, 7, 12, dtype=torch.float64, requires_grad=True)
    queries = torch.randn(2, len(after), 12, dtype=torch.float64, requires_grad=True)
    along, answers = model.branch(context, queries, after)
    expected = branch_by_repetition(model, context, queries, after)
    torch.testing.assert_close(answers, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(along, model(context), rtol=1e-9, atol=1e-9)
    weights = torch.randn_like(answers)
    inputs = [context, queries, *model.parameters()]
    ours = torch.autograd.grad((answers * weights).sum(), inputs, allow_unused=True, materialize_grads=True)
    theirs = torch.autograd.grad((expected * weights).sum(), inputs, allow_unused=True, materialize_grads=True)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_depend_on_the_past_alone(kind: str) -> None:
    model = build(kind)
    x = torch.randn(2, 9, 12, dtype=torch.float64)
    changed = x.clone()
    changed[:, 5] += torch.randn(2, 12, dtype=torch.float64)
    difference = (model(x) - model(changed)).abs().amax((0, 2))
    assert (difference[:5] == 0).all()
    assert (difference[5:] > 1e-6).all()
