"""Stage I of Algorithm 1: the streamed gradient of gamma against autograd on the model as written in the paper."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.models import EMBEDDINGS, MODEL_GATES, OneLayerMamba, embed
from iclab.pretraining import gamma_gradient
from iclab.pretraining.algorithm1.stage_one import task_gradient
from iclab.prompts import CHUNK, PromptDistribution, Prompts, SingleIndex, Stream

STREAM = Stream(21).child("gradient")


def make(gate: str = "mamba", embedding: str = "hermite2", d: int = 5, dtype: torch.dtype = torch.float64):
    model = OneLayerMamba(d, 32, gate=gate, embedding=embedding, rho=0.7, b=-3.0, dtype=dtype)
    model.draw_head(STREAM.child("head"))
    with torch.no_grad():
        model.gamma.normal_(generator=STREAM.child("gamma").at(0))
        model.a2.normal_(generator=STREAM.child("a2").at(0))
        model.scale.fill_(1.7)
    return model


def losses_as_in_the_paper(model: OneLayerMamba, p: Prompts, gamma: torch.Tensor) -> torch.Tensor:
    """``(B,)``: ``(f - y)^2 / 2`` averaged over queries, with every token embedded explicitly."""
    c = torch.exp(model.gates(p)) * p.example_labels / p.num_examples
    s = torch.einsum("bn,bnp->bp", c, embed(p.examples, model.embedding))
    m = torch.einsum("bp,p,bqp->bq", s, gamma, embed(p.queries, model.embedding))
    outputs = torch.relu(m[..., None] / model.scale * model.v + model.a1) @ model.a2.detach()
    return ((outputs - p.query_labels) ** 2 / 2).mean(1)


def by_autograd(model: OneLayerMamba, p: Prompts) -> torch.Tensor:
    gamma = model.gamma.detach().clone().requires_grad_()
    return torch.autograd.grad(losses_as_in_the_paper(model, p, gamma).sum(), gamma)[0]


@pytest.mark.parametrize(("gate", "embedding"), list(itertools.product(MODEL_GATES, EMBEDDINGS)))
@pytest.mark.parametrize("queries", [1, 4])
def test_the_analytic_gradient_is_that_of_autograd(gate, embedding, queries):
    model = make(gate, embedding)
    p = SingleIndex(5, 3, "tanh", 0.3).sample(STREAM, 24, 40, queries, dtype=torch.float64)
    expected = by_autograd(model, p)
    torch.testing.assert_close(task_gradient(model, p), expected, rtol=1e-10, atol=1e-12 * float(expected.abs().max()))


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_the_model_itself_has_the_same_gradient(embedding):
    model = make(embedding=embedding)
    p = SingleIndex(5, 3, "he3", 0.3).sample(STREAM, 24, 40, 2, dtype=torch.float64)
    loss = ((model(p) - p.query_labels) ** 2 / 2).mean(1).sum()
    loss.backward()
    assert model.gamma.grad is not None
    torch.testing.assert_close(model.gamma.grad, by_autograd(model, p), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("tasks", [1, 5, 8, 63, 64, 65, 130])
def test_the_streamed_mean_is_the_mean_over_the_tasks(tasks):
    model = make()
    distribution = SingleIndex(5, 3, "tanh", 0.3)
    p = distribution.sample(STREAM.child("tasks"), tasks, 30, 2, dtype=torch.float64)
    gradient = gamma_gradient(model, distribution, STREAM.child("tasks"), tasks, 30, num_queries=2)
    torch.testing.assert_close(gradient.mean, by_autograd(model, p) / tasks, rtol=1e-9, atol=1e-12)
    assert gradient.num_tasks == tasks
    assert gradient.mean.dtype == torch.float64
    assert not gradient.mean.requires_grad


def test_the_gradient_does_not_depend_on_the_number_of_threads():
    model = make(dtype=torch.float32)
    distribution = SingleIndex(5, 3, "tanh", 0.3)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 2, 1):
            torch.set_num_threads(threads)
            results.append(gamma_gradient(model, distribution, STREAM, 300, 50))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    one, two, again, last = results
    assert torch.equal(one.mean, last.mean)
    assert torch.equal(two.mean, again.mean)
    assert torch.equal(two.standard_error, again.standard_error)
    torch.testing.assert_close(one.mean, two.mean, rtol=1e-5, atol=1e-7)


class FirstCoordinate(PromptDistribution):
    """Labels that are a part of the inputs, and so of the buffer."""

    ambient_dim = 3

    def draw_chunks(self, generators, num_examples, num_queries, dtype, buffer=None):
        (generator,) = generators
        inputs = torch.empty(CHUNK, num_examples + num_queries, 3, dtype=dtype) if buffer is None else buffer
        inputs.normal_(generator=generator)
        return Prompts(inputs, inputs[..., 0], num_examples)


def test_labels_may_lie_in_the_inputs():
    model = OneLayerMamba(3, 8, rho=0.5, b=-1.0)
    model.draw_head(STREAM)
    with torch.no_grad():
        model.a2.fill_(0.1)
    found = gamma_gradient(model, FirstCoordinate(), STREAM, 24, 10)
    parts = [task_gradient(model, FirstCoordinate().sample(STREAM, 8, 10, start=start)) for start in (0, 8, 16)]
    torch.testing.assert_close(found.mean, torch.stack(parts).sum(0).double() / 24, rtol=1e-4, atol=1e-6)


def test_standard_errors_are_the_spread_over_seeds():
    model = make(d=4)
    distribution = SingleIndex(4, 2, "tanh", 0.3)
    runs = [gamma_gradient(model, distribution, STREAM.child(f"seed {seed}"), 320, 20) for seed in range(200)]
    spread = np.std([run.mean.numpy() for run in runs], axis=0, ddof=1)
    claimed = np.mean([run.standard_error.numpy() ** 2 for run in runs], axis=0) ** 0.5
    # Over 200 runs a standard deviation is known to 5 %, less well for heavy tails.
    assert np.all(np.abs(claimed / spread - 1) < 0.25)
    assert np.mean(claimed / spread) == pytest.approx(1, abs=0.06)
    assert not gamma_gradient(model, distribution, STREAM, 64, 20).standard_error.any()


def test_the_gradient_finds_the_support_and_its_sign():
    """The mean of f * grad f on coordinate i is gamma_i E[S_i^2] > 0 times the head's slope: larger inside."""
    distribution = SingleIndex(6, 2, "tanh", support=[1, 4])
    model = OneLayerMamba(6, 64, embedding="identity", gate="linear", dtype=torch.float64)
    model.draw_head(STREAM)
    with torch.no_grad():
        model.a2.fill_(1 / 64)
    gradient = gamma_gradient(model, distribution, STREAM.child("support"), 3000, 100)
    size = gradient.mean.abs()
    assert set(size.topk(2).indices.tolist()) == {1, 4}
    assert bool((size[[1, 4]] > 8 * gradient.standard_error[[1, 4]]).all())


@pytest.mark.parametrize(
    ("arguments", "word"), [((0, 10, 1), "num_tasks"), ((8, 0, 1), "num_examples"), ((8, 10, 0), "num_queries")]
)
def test_wrong_sizes_are_refused(arguments, word):
    tasks, examples, queries = arguments
    with pytest.raises(InputError, match=word):
        gamma_gradient(make(), SingleIndex(5, 3), STREAM, tasks, examples, num_queries=queries)


_PEAK = """
import resource, sys, torch
from iclab.models import OneLayerMamba
from iclab.pretraining import gamma_gradient
from iclab.pretraining.algorithm1.two_stage import _stage2_data
from iclab.prompts import SingleIndex, Stream
torch.set_num_threads(2)
model, law = OneLayerMamba(16, 64), SingleIndex(16, 2)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def work(tasks):
    with torch.no_grad():
        gamma_gradient(model, law, Stream(0), tasks, 256)
        _stage2_data(model, law, Stream(0), tasks, (256,), 1)
work(400)
few = peak()
work(8_000)
print((peak() - few) / 1024)
"""


def test_memory_does_not_grow_with_the_number_of_tasks():
    # Autograd's graph of 8,000 tasks, recorded by mistake, takes 170 MB; allocators' noise is some 15 MB.
    grown = subprocess.run([sys.executable, "-c", _PEAK], capture_output=True, text=True, check=True, timeout=120)
    assert float(grown.stdout) < 50
