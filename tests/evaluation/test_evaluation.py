"""Error curves, probes and oracles on learners and states whose errors are known."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.estimators import LeastSquares
from iclab.evaluation import (
    METRICS,
    Curve,
    DirectionReadout,
    alignment,
    error_curve,
    readout_error,
    scaling_slope,
    support_auc,
)
from iclab.links import make_link
from iclab.models import OneLayerMamba, StateBlocks, block_degrees, embedding_dim, in_support
from iclab.prompts import Prompts, SingleIndex, Stream
from iclab.theory import GateMoments

STREAM = Stream(31).child("evaluation")
LAW = SingleIndex(4, 2, "he3", noise=0.5)


class Offset:
    """Predicts the clean target plus ``size / (1 + N)``, so every error is known. It is told the targets beforehand:
    from the prompts it cannot learn them."""

    def __init__(self, size: float, name: str = "offset") -> None:
        self.size = size
        self.name = name

    def predict(self, prompts: Prompts) -> torch.Tensor:
        known = draw()
        rows = [int((known.queries[:, 0, 0] == first).nonzero()[0, 0]) for first in prompts.queries[:, 0, 0]]
        return known.query_targets[rows] + self.size / (1 + prompts.num_examples)


def draw(batch: int = 40, count: int = 8, queries: int = 3) -> Prompts:
    return LAW.sample(STREAM, batch, count, queries, dtype=torch.float64)


def test_a_known_error_is_measured():
    curves = error_curve([Offset(6.0)], draw(), [0, 1, 2, 5])
    assert set(curves) == set(METRICS) - {"zero_one_error"}  # that one is of labels +1 and -1
    expected = np.array([6.0, 3.0, 2.0, 1.0])
    np.testing.assert_allclose(curves["squared_error"]["offset"].values, expected**2, rtol=1e-12)
    np.testing.assert_allclose(curves["absolute_error"]["offset"].values, expected, rtol=1e-12)
    # Against noisy labels +-0.5: errors |6 -+ 0.5| and so on.
    noise = (draw().query_labels - draw().query_targets).numpy()
    for metric, power in [("noisy_squared_error", 2), ("noisy_absolute_error", 1)]:
        by_hand = [np.mean(np.abs(e - noise) ** power) for e in expected]
        np.testing.assert_allclose(curves[metric]["offset"].values, by_hand, rtol=1e-12)


class Peeking:
    """Returns whatever answers the prompts carry, and spoils them for the next."""

    name = "peeking"

    def predict(self, prompts: Prompts) -> torch.Tensor:
        assert prompts.targets is None
        assert prompts.directions is None
        assert bool(torch.isnan(prompts.query_labels).all())
        prompts.inputs.zero_()
        return torch.zeros(prompts.queries.shape[:2])


def test_learners_are_measured_blind_and_cannot_spoil_each_other():
    alone = error_curve([Offset(6.0)], draw(), [0, 5])["squared_error"]["offset"]
    beside = error_curve({"peeking": Peeking(), "offset": Offset(6.0)}, draw(), [0, 5])["squared_error"]["offset"]
    assert np.array_equal(alone.samples[0], beside.samples[0])


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (lambda p: torch.zeros(p.batch_size, 1), "expected"),
        (lambda p: torch.zeros(p.num_queries, p.batch_size), "expected"),
        (lambda p: torch.zeros(p.batch_size, p.num_queries, 1), "expected"),
        (lambda p: torch.full((p.batch_size, p.num_queries), float("nan")), "nan"),
    ],
)
def test_predictions_of_another_shape_or_not_finite_are_refused(answer, word):
    class Wrong:
        name = "wrong"
        predict = staticmethod(answer)

    with pytest.raises(InputError, match=word):
        error_curve([Wrong()], draw(), [2])


def test_arrays_and_tensors_that_require_gradients_are_predictions_too():
    class Array:
        name = "array"

        def predict(self, prompts: Prompts) -> Any:
            return np.zeros(tuple(prompts.queries.shape[:2]))

    class Graph:
        name = "graph"

        def predict(self, prompts: Prompts) -> torch.Tensor:
            return torch.zeros(prompts.queries.shape[:2], requires_grad=True)

    curves = error_curve([Array(), Graph()], draw(), [2])["squared_error"]
    assert np.array_equal(curves["array"].samples[0], curves["graph"].samples[0])


def test_the_floor_of_the_noisy_error_is_the_noise():
    curves = error_curve([Offset(0.0)], draw(), [4])
    assert curves["squared_error"]["offset"].values[0] == pytest.approx(0, abs=1e-24)
    assert curves["noisy_squared_error"]["offset"].values[0] == pytest.approx(0.25, rel=1e-12)
    assert curves["noisy_absolute_error"]["offset"].values[0] == pytest.approx(0.5, rel=1e-12)


def test_errors_are_divided_by_the_label_variance():
    curves = error_curve([Offset(6.0)], draw(), [0], label_variance=4.0)
    assert curves["squared_error"]["offset"].values[0] == pytest.approx(9.0, rel=1e-12)
    assert curves["absolute_error"]["offset"].values[0] == pytest.approx(3.0, rel=1e-12)


def test_batches_are_one_measurement():
    p = draw()
    whole = error_curve([Offset(6.0)], p, [0, 3])["noisy_squared_error"]["offset"]
    pieces = error_curve([Offset(6.0)], (p[i : i + 7] for i in range(0, 40, 7)), [0, 3])
    np.testing.assert_array_equal(pieces["noisy_squared_error"]["offset"].samples[0], whole.samples[0])
    assert whole.samples[0].shape == (2, 40)


def test_learners_see_the_same_prompts_so_differences_are_exact():
    curves = error_curve({"a": Offset(3.0), "b": Offset(1.0)}, draw(), [0, 1])["absolute_error"]
    gap = curves["a"] - curves["b"]
    np.testing.assert_allclose(gap.values, [2.0, 1.0], rtol=1e-12)
    assert gap.learner == "a - b"
    # Constant gaps have an interval without width, though each noisy curve alone has one.
    noisy = error_curve({"a": Offset(3.0), "b": Offset(1.0)}, draw(), [0])["noisy_absolute_error"]
    band, paired = noisy["a"].intervals()[0], (noisy["a"] - noisy["b"]).intervals()[0]
    assert band.high - band.low > 0.05
    assert paired.high - paired.low < 1e-12


def test_a_causal_learner_may_answer_all_lengths_at_once():
    class Fast(Offset):
        def predict(self, prompts: Prompts) -> torch.Tensor:
            raise AssertionError("the fast way was not taken")

        def predict_at(self, prompts: Prompts, num_examples: Sequence[int]) -> torch.Tensor:
            return torch.stack([Offset(self.size).predict(prompts.prefix(n)) for n in num_examples])

    one = error_curve([Fast(6.0)], draw(), [0, 5])["squared_error"]["offset"]
    assert np.array_equal(one.values, error_curve([Offset(6.0)], draw(), [0, 5])["squared_error"]["offset"].values)


def test_without_clean_targets_only_noisy_errors_are_given():
    p = Prompts.from_arrays([[1.0], [2.0]], [1.0, 2.0], [[3.0]], [3.0])

    class Three:
        name = "three"

        def predict(self, prompts: Prompts) -> torch.Tensor:
            return torch.full((1, 1), 3.5)

    curves = error_curve([Three()], p, [2])
    assert set(curves) == {"noisy_squared_error", "noisy_absolute_error"}
    assert curves["noisy_squared_error"]["three"].values[0] == 0.25


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"num_examples": []}, "num_examples is empty"),
        ({"num_examples": [9]}, "draw longer prompts"),
        ({"num_examples": [-1]}, "num_examples"),
        ({"label_variance": 0.0}, "label_variance"),
        ({"learners": [Offset(1.0), Offset(2.0)]}, "same name"),
        ({"prompts": []}, "no prompts"),
        ({"prompts": Prompts.from_arrays([[1.0]], [1.0], [[2.0]]), "num_examples": [1]}, "no labels to score"),
        ({"prompts": draw(queries=0)}, "have no queries"),
    ],
)
def test_what_cannot_be_measured_is_refused(change, word):
    arguments = {"learners": [Offset(1.0)], "prompts": draw(), "num_examples": [2]} | change
    with pytest.raises(InputError, match=word):
        error_curve(**arguments)


def curve(learner: str = "a", metric: str = "m", lengths: tuple[int, ...] = (1, 2), prompts: int = 3) -> Curve:
    return Curve(learner, metric, lengths, (np.arange(len(lengths) * prompts, dtype=float).reshape(-1, prompts),))


def test_joined_seeds_are_averaged_with_equal_weight():
    longer = Curve("a", "m", (1, 2), (np.full((2, 9), 100.0),))
    joined = Curve.join([curve(), longer])
    np.testing.assert_allclose(joined.values, [(1 + 100) / 2, (4 + 100) / 2])
    assert len(joined.samples) == 2
    assert [m.value for m in curve().measurements()] == [1.0, 4.0]
    assert [m.num_examples for m in curve().measurements()] == [1, 2]
    with pytest.raises(InputError, match="2 seeds"):
        joined.measurements()


@pytest.mark.parametrize("other", [curve("b"), curve(metric="n"), curve(lengths=(1, 3))])
def test_joining_different_curves_is_refused(other):
    with pytest.raises(InputError, match="differ"):
        Curve.join([curve(), other])
    with pytest.raises(InputError, match="no curves"):
        Curve.join([])


@pytest.mark.parametrize("other", [curve(metric="n"), curve(lengths=(1, 3)), curve(prompts=4)])
def test_subtracting_what_is_not_paired_is_refused(other):
    with pytest.raises(InputError, match="not paired"):
        _ = curve() - other


def test_alignment_of_a_state_that_is_known():
    p = draw(16)
    assert p.directions is not None
    beta = p.directions
    off = torch.randn(16, 4, generator=STREAM.at(0), dtype=torch.float64)
    off = off - (off * beta).sum(1, keepdim=True) * beta
    off = off / off.norm(dim=1, keepdim=True)
    outer = beta[:, :, None] * beta[:, None, :]
    state = StateBlocks(torch.zeros(16), 3 * beta - 4 * off, 2 * outer)
    result = alignment(state, p)
    np.testing.assert_allclose(result.cosine(1), 0.6, rtol=1e-12)
    np.testing.assert_allclose(result.cosine(2), 1.0, rtol=1e-12)
    np.testing.assert_allclose(result.samples(1), np.array([[3.0], [25.0]]) * np.ones((1, 16)), rtol=1e-12)
    # On the support, only what lies there counts.
    inside = (3 * beta - 4 * off)[:, list(LAW.support)]
    np.testing.assert_allclose(alignment(state, p, LAW.support).energy[0], (inside**2).sum(1).numpy(), rtol=1e-12)
    nothing = StateBlocks(torch.zeros(16), torch.zeros(16, 4), torch.zeros(16, 0, 0))
    assert not alignment(nothing, p).cosine(1).any()
    with pytest.raises(InputError, match="degree"):
        result.cosine(3)
    with pytest.raises(InputError, match="directions"):
        alignment(state, Prompts(p.inputs, p.labels, p.num_examples))


def test_alignment_of_the_model_is_the_exact_one():
    distribution = SingleIndex(6, 3, "he3", 0.1)
    model = OneLayerMamba(6, 4, rho=0.5, b=-7.0)
    samples = alignment(model, distribution.sample(STREAM.child("exact"), 8000, 100), distribution.support)
    exact = GateMoments("he3", 0.1, 0.5, -7.0, 100)
    for degree in (1, 2):
        a, e = samples.samples(degree)
        pooled = a.mean() / np.sqrt(e.mean())
        error = pooled * (a / a.mean() - e / (2 * e.mean())).std() / 8000**0.5
        assert abs(pooled - exact.alignment(3, degree)) < 5 * abs(error)


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("embedding", ["hermite2", "identity"])
def test_support_auc_is_that_of_scikit_learn(degree, embedding):
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(2)
    d, support = 8, (1, 4, 6)
    gamma = torch.from_numpy(rng.normal(size=embedding_dim(embedding, d)).round(1))  # rounding makes ties
    ours = support_auc(gamma, embedding, support, d, degree)
    if embedding == "identity" and degree == 2:
        assert np.isnan(ours)
        return
    chosen = block_degrees(embedding, d).numpy() == degree
    inside = in_support(embedding, d, support).numpy()[chosen]
    assert ours == pytest.approx(metrics.roc_auc_score(inside, gamma.abs().numpy()[chosen]), abs=1e-12)
    perfect = in_support(embedding, d, support).double() * -1
    assert support_auc(perfect, embedding, support, d, degree) == 1.0
    assert np.isnan(support_auc(gamma, embedding, tuple(range(8)), d, degree))


def test_support_auc_of_a_constant_is_chance():
    assert support_auc(torch.ones(embedding_dim("hermite2", 8)), "hermite2", (1, 2), 8, 2) == 0.5


@pytest.mark.parametrize("link", ["he3", "tanh", "sign", "relu"])
@pytest.mark.parametrize("cosine", [0.0, 0.6, -0.9, 0.99])
def test_readout_error_is_the_error_of_the_conditional_mean(link, cosine):
    """Simulated with the conditional mean found by integration over ``z`` given ``u``."""
    g = make_link(link)
    u, e = np.linspace(-9, 9, 601), np.linspace(-9, 9, 4001)
    weight, mass = np.exp(-u * u / 2), np.exp(-e * e / 2)
    weight, mass = weight / weight.sum(), mass / mass.sum()
    conditional = np.array([mass @ g(cosine * v + np.sqrt(1 - cosine**2) * e) for v in u])
    expected = g.mean**2 + g.variance - weight @ conditional**2
    # Sign has a slowly falling series, of which 40 terms are used.
    tolerance = 0.02 if link == "sign" and abs(cosine) > 0.9 else 2e-4
    assert float(readout_error(g, cosine)[0]) == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("link", ["he3", "tanh"])
def test_the_oracle_errs_as_it_expects(link):
    distribution = SingleIndex(6, 3, make_link(link, standardise=True))
    model = OneLayerMamba(6, 4, rho=0.8, b=-5.0)
    oracle = DirectionReadout(model, distribution, STREAM.child("calibration"), [20, 200], num_tasks=2048)
    for count in (20, 200):
        p = distribution.sample(STREAM.child("test"), 1500, count, 8)
        errors = ((oracle.predict(p) - p.query_targets) ** 2).mean(1).double()
        spread = float(errors.std()) / 1500**0.5
        # The calibration is itself a sample of the same size.
        assert abs(float(errors.mean()) - oracle.expected_error(count)) < 5 * 1.5 * spread
        # Told the cosine of each prompt one does better on average: Jensen.
        cosine = alignment(model, p, distribution.support).cosine(1)
        assert readout_error(distribution.link, cosine).mean() < oracle.expected_error(count) + 5 * spread
    assert oracle.expected_error(200) < oracle.expected_error(20)
    # Without examples, the mean label.
    assert float(oracle.predict(distribution.sample(STREAM, 3, 0, 2)).abs().max()) < 1e-12


def test_the_oracle_refuses_what_it_does_not_understand():
    model = OneLayerMamba(6, 4)
    for distribution in (SingleIndex(6, 2, rotation="random"), SingleIndex(6, 2, inputs="uniform")):
        with pytest.raises(InputError, match="oracle"):
            DirectionReadout(model, distribution, STREAM, [8])
    with pytest.raises(InputError, match="calibrate"):
        DirectionReadout(model, SingleIndex(6, 2), STREAM, [0])
    with pytest.raises(InputError, match="expected one of"):
        DirectionReadout(model, SingleIndex(6, 2), STREAM, [8], num_tasks=8).expected_error(9)


def test_a_power_law_has_its_exponent():
    x = np.array([16, 32, 64, 128, 256])
    exact = scaling_slope(x.tolist(), 3.0 * x**-1.5)
    assert exact.slope == pytest.approx(-1.5, abs=1e-12)
    assert np.exp(exact.intercept) == pytest.approx(3.0)
    assert (exact.low, exact.high) == (pytest.approx(-1.5, abs=1e-9), pytest.approx(-1.5, abs=1e-9))
    assert (exact.kind, exact.num_points) == ("regression", 5)
    # A point that is zero or missing is left out.
    broken = np.where(x == 64, np.nan, 3.0 * x**-1.5)
    assert scaling_slope(x.tolist(), broken).slope == pytest.approx(-1.5, abs=1e-12)
    assert np.isnan(scaling_slope([1, 2], np.array([1.0, 2.0])).low)


def test_the_regression_interval_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    x = np.geomspace(4, 400, 9)
    y = x**0.7 * np.exp(0.2 * rng.normal(size=9))
    ours, peer = scaling_slope(x.tolist(), y), stats.linregress(np.log(x), np.log(y))
    margin = stats.t.ppf(0.975, 7) * peer.stderr
    assert (ours.low, ours.high) == (pytest.approx(peer.slope - margin), pytest.approx(peer.slope + margin))


@pytest.mark.parametrize("seeds", [2, 3, 5, 12])
def test_the_interval_of_a_slope_covers_the_truth_as_often_as_it_says(seeds):
    """Seeds whose slopes differ, and lengths of one seed that err together, as nested prompts do."""
    x, covered = np.array([16.0, 32, 64, 128]), 0
    for trial in range(400):
        rng = np.random.default_rng([seeds, trial])
        slopes = -1.0 + 0.3 * rng.normal(size=(seeds, 1))
        y = x**slopes * np.exp(0.3 * rng.normal(size=(seeds, 1)) + 0.02 * rng.normal(size=(seeds, 4)))
        slope = scaling_slope(x.tolist(), y)
        assert slope.kind == "seeds"
        covered += slope.low <= -1.0 <= slope.high
    assert 0.92 * 400 <= covered <= 0.98 * 400


def test_a_level_outside_zero_and_one_is_refused():
    with pytest.raises(InputError, match="level"):
        scaling_slope([1.0, 2.0], np.array([1.0, 2.0]), level=2)


@pytest.mark.parametrize(("x", "y"), [([1.0, 2.0], [1.0, np.nan]), ([2.0, 2.0], [1.0, 3.0]), ([1.0], [1.0])])
def test_a_slope_of_one_point_is_refused(x, y):
    with pytest.raises(InputError, match="two usable points"):
        scaling_slope(x, np.array(y))


@pytest.mark.parametrize(
    ("learners", "prompts", "lengths", "message"),
    [
        ([LeastSquares()], None, 4, "expected a list of context lengths"),
        ([LeastSquares()], None, [4, 4], "expected distinct lengths"),
        ("ab", None, [4], "a mapping from names to learners"),
        ([LeastSquares()], "x", [4], "prompts are of type str"),
        ([LeastSquares()], [1.0], [4], "prompts are of type float"),
        ([LeastSquares()], 3, [4], "prompts are of type int"),
    ],
)
def test_first_mistakes_with_error_curve_are_named(learners, prompts, lengths, message):
    drawn = SingleIndex(4, 2, "he3").sample(Stream(0), 8, 4, 1)
    with pytest.raises(InputError, match=message):
        error_curve(learners, drawn if prompts is None else prompts, lengths)


def test_an_x_that_is_not_finite_is_left_out_and_shapes_are_checked():
    x = [1.0, 2.0, 4.0, np.inf, np.nan]
    assert scaling_slope(x, np.array([1.0, 2.0, 4.0, 5.0, 6.0])).slope == pytest.approx(1.0)
    for y in (np.zeros((0, 2)), np.ones((1, 1, 2)), np.ones(3)):
        with pytest.raises(InputError, match="expected one y for each x"):
            scaling_slope([1.0, 2.0], y)
    with pytest.raises(InputError, match="level is 'a'"):
        scaling_slope([1.0, 2.0], np.ones(2), level="a")  # type: ignore[arg-type]


def test_probes_refuse_what_is_no_number():
    prompts = SingleIndex(4, 2, "tanh", seed=1).sample(Stream(0), 8, 4, 1)
    model = OneLayerMamba(4, 1)
    for coordinates, word in (([], "at least one"), ([1, 1], "none twice"), ([4], "a coordinate is 4")):
        with pytest.raises(InputError, match=word):
            alignment(model, prompts, coordinates)
    state = model.features(prompts)
    broken = replace(state, degree1=state.degree1 * float("nan"))
    with pytest.raises(InputError, match="state"):
        alignment(broken, prompts)
    with pytest.raises(InputError, match="gamma holds NaN"):
        support_auc(torch.full_like(model.gamma, float("nan")), model.embedding, (0, 1), 4, 1)
    link = SingleIndex(4, 2, "tanh", seed=1).link
    for cosine in (1.5, float("nan")):
        with pytest.raises(InputError, match="the cosine is"):
            readout_error(link, cosine)
    assert readout_error(link, 1 + 1e-15)[0] == pytest.approx(readout_error(link, 1.0)[0])


def test_a_batch_without_prompts_is_refused():
    prompts = SingleIndex(4, 2, "tanh", seed=1).sample(Stream(0), 8, 4, 1)
    with pytest.raises(InputError, match="no prompts"):
        error_curve([LeastSquares()], prompts[0:0], [4])
