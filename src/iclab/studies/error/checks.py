"""Error experiments that the types allow, and the mathematics or the machine does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iclab.config.limits import check_bytes, check_duration, check_lengths
from iclab.errors import InputError
from iclab.experiments.sections.deep import DeepLearner
from iclab.experiments.sections.learners import Joint, KernelRidgeLearner, OneLayer, Oracle, TwoStage
from iclab.experiments.sections.single_index import Gate, check_gate, check_prompts_fit, sampling_seconds
from iclab.studies.error.names import THEORY, ZERO
from iclab.studies.error.theory import theory_moments

if TYPE_CHECKING:
    from iclab.studies.error.config import ErrorConfig

EVALUATION_BATCH = 32
"""Prompts that are measured at a time."""

_CHUNK = 8
_NUM_METRICS = 4


def check(config: ErrorConfig) -> None:
    """Refuse what the types allow and the mathematics does not."""
    check_lengths("num_examples", config.num_examples, 0)
    if max(config.num_examples) == 0:
        raise InputError("num_examples is [0]; expected a length >= 1 beside it, to learn something in context")
    config.prompts.build(config.seed)
    _check_evaluation(config)
    _check_labels(config)
    for name, section in config.learners.items():
        _check_learner(f"learners.{name}", section, config)
    _check_theory(config)


def _check_evaluation(config: ErrorConfig) -> None:
    longest, dim = max(config.num_examples), config.prompts.ambient_dim
    check_prompts_fit("num_examples", EVALUATION_BATCH, longest + config.num_queries, dim)
    curves = _NUM_METRICS * (len(config.learners) + 1) * len(config.num_examples)
    check_bytes("num_prompts", config.num_prompts, 8.0 * config.num_prompts * curves)
    check_duration("num_prompts", config.num_prompts, sampling_seconds(config.num_prompts, longest, dim))


def _check_labels(config: ErrorConfig) -> None:
    labels = [section.label or name for name, section in config.learners.items()]
    taken = {ZERO, THEORY} & set(labels)
    if taken:
        raise InputError(f"a learner is called {taken.pop()!r}, which every run measures itself; choose another label")
    if len(set(labels)) < len(labels):
        raise InputError(f"two learners have the same label in {labels}; give each its own")


def _check_theory(config: ErrorConfig) -> None:
    if config.theory_gate is None:
        return
    section = config.learners.get(config.theory_gate)
    if not isinstance(section, OneLayer | Oracle):
        known = ", ".join(n for n, s in config.learners.items() if isinstance(s, OneLayer | Oracle))
        choice = f"a one-layer learner ({known}) or null" if known else "null: no learner is a one-layer model"
        raise InputError(f"theory_gate is {config.theory_gate!r}; expected {choice}")
    if section.clip is not None:
        raise InputError(
            f"theory_gate is {config.theory_gate!r}, whose labels are clipped; the exact curve is for unclipped ones: "
            "set theory_gate=null"
        )
    moments = theory_moments(config)
    try:
        _ = moments.token if moments is not None else None
    except InputError as error:
        raise InputError(f"the exact curve of theory_gate does not exist ({error}); set theory_gate=null") from None


def _check_learner(key: str, section, config: ErrorConfig) -> None:
    prompts = config.prompts
    told = isinstance(section, Oracle) or getattr(section, "coordinates", "all") == "support"
    if told and prompts.rotation is not None:
        raise InputError(
            f"{key} is told a support among the coordinates, which prompts.rotation removes; leave the rotation unset "
            "or the learner out"
        )
    if section.kind == "direction_readout" and prompts.inputs != "gaussian":
        raise InputError(
            f"{key} is optimal for gaussian inputs and prompts.inputs is {prompts.inputs!r}; take kind head_readout or "
            "leave it out"
        )
    if isinstance(section, Gate):
        check_gate(key, section, prompts)
    if isinstance(section, OneLayer):
        _check_pretraining(f"{key}.pretraining", section, prompts.ambient_dim)
    if isinstance(section, Oracle):
        _check_oracle(key, section, config)
    if isinstance(section, KernelRidgeLearner):
        _check_kernel(key, section, config)
    if isinstance(section, DeepLearner):
        section.check(key, prompts.build(config.seed), config.num_examples)


def _check_pretraining(key: str, section: OneLayer, dim: int) -> None:
    pretraining = section.pretraining
    check_prompts_fit(key, 64, pretraining.num_examples, dim)
    check_bytes(f"{key.removesuffix('.pretraining')}.width", section.width, 5 * 8.0 * section.width**2)
    if isinstance(pretraining, TwoStage):
        _check_two_stage(key, pretraining, section.embedding, dim)
    if isinstance(pretraining, Joint):
        if pretraining.batch_size % _CHUNK:
            raise InputError(f"{key}.batch_size is {pretraining.batch_size}; expected a multiple of {_CHUNK}")
        tokens = pretraining.num_examples + pretraining.num_queries
        check_bytes(f"{key}.num_queries", pretraining.num_queries, 12.0 * _CHUNK * tokens * dim)
        check_bytes(f"{key}.batch_size", pretraining.batch_size, 12.0 * pretraining.batch_size * tokens)
        prompts = pretraining.steps * pretraining.batch_size
        check_duration(f"{key}.steps", pretraining.steps, sampling_seconds(prompts, pretraining.num_examples, dim))


def _check_two_stage(key: str, pretraining: TwoStage, embedding: str, dim: int) -> None:
    degrees = pretraining.degrees
    if not set(degrees) <= {0, 1, 2} or len(set(degrees)) < len(degrees):
        raise InputError(f"{key}.degrees is {degrees}; expected some of 0, 1, 2, each once")
    if embedding == "identity" and degrees not in ([0, 1, 2], [1]):
        raise InputError(
            f"{key}.degrees is {degrees} with the identity embedding, which has degree 1 alone; expected [1], or leave "
            "degrees unset"
        )
    lengths = pretraining.stage2_examples or [pretraining.num_examples]
    rows = pretraining.stage2_tasks * pretraining.stage2_queries
    check_prompts_fit(f"{key}.stage2_examples", 64, max(lengths), dim)
    check_bytes(f"{key}.stage2_queries", pretraining.stage2_queries, 12.0 * _CHUNK * pretraining.stage2_queries * dim)
    seconds = sampling_seconds(pretraining.stage1_tasks, pretraining.num_examples, dim)
    check_duration(f"{key}.stage1_tasks", pretraining.stage1_tasks, seconds)
    seconds = sampling_seconds(pretraining.stage2_tasks, sum(lengths) / len(lengths), dim)
    check_duration(f"{key}.stage2_tasks", pretraining.stage2_tasks, seconds)
    # Value and label of every query are held until the ridge regression, as float32 and, for a quantile, float64.
    costly = "stage2_queries" if pretraining.stage2_queries > pretraining.stage2_tasks else "stage2_tasks"
    check_bytes(f"{key}.{costly}", getattr(pretraining, costly), 24.0 * rows)


def _check_oracle(key: str, section: Oracle, config: ErrorConfig) -> None:
    tasks, lengths = section.calibration_tasks, config.num_examples
    check_duration(f"{key}.calibration_tasks", tasks, sampling_seconds(tasks, sum(lengths), config.prompts.ambient_dim))
    check_bytes(f"{key}.calibration_tasks", tasks, 8.0 * 48 * tasks * len(lengths))


def _check_kernel(key: str, section: KernelRidgeLearner, config: ErrorConfig) -> None:
    longest = min(section.max_examples, max(config.num_examples))
    if section.max_examples < min(config.num_examples):
        raise InputError(
            f"{key}.max_examples is {section.max_examples} and num_examples starts at {min(config.num_examples)}: the "
            "curve would have no point; raise max_examples or leave the learner out"
        )
    tuned = max(section.tuning_lengths(config.num_examples))
    check_bytes(f"{key}.max_examples", section.max_examples, 48.0 * longest**2)
    check_prompts_fit(f"{key}.tune_prompts", section.tune_prompts, tuned + 8, config.prompts.ambient_dim)
    grid = len(section.bandwidths) * len(section.penalties)
    check_duration(f"{key}.tune_prompts", section.tune_prompts, grid * section.tune_prompts * tuned**3 * 1.2e-11)
