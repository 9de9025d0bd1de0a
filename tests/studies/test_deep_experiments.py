import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import yaml

from iclab.errors import InputError
from iclab.execution import Execution, executing
from iclab.experiments.cost import Work
from iclab.experiments.resolved import resolve
from iclab.experiments.sections.deep import DeepLearner, Growth
from iclab.lock import LOCK, locked
from iclab.pretraining.trainer.loop import Trainer
from iclab.prompts import SingleIndex, Stream
from iclab.runs.results import load_results
from iclab.runs.run import run_experiment
from iclab.studies.error import study as error

TINY = {"width": 8, "depth": 1}
TRAINING = {"num_examples": 8, "steps": 12, "batch_size": 8, "evaluate_every": 6, "evaluation_prompts": 8}


def deep(kind: str = "mamba", **training: object) -> dict:
    heads = {"heads": 2} if kind == "gpt2" else {}
    return {"kind": "deep", "label": kind, "backbone": {"kind": kind} | TINY | heads, "training": TRAINING | training}


def config(**learners: dict) -> error.ErrorConfig:
    return error.ErrorConfig.model_validate(
        {
            "prompts": {"ambient_dim": 4, "intrinsic_dim": 2},
            "learners": learners,
            "theory_gate": None,
            "num_examples": [0, 4, 12],
            "num_prompts": 8,
        }
    )


@pytest.mark.parametrize(
    ("growth", "stop", "values"),
    [
        (Growth(until=1400), 8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (Growth(until=1400), 16, [1, 3, 5, 7, 9, 11, 13, 15, 16]),
        (Growth(until=600), 2, [1, 2]),
        (Growth(start=4, until=10), 4, [4]),
    ],
)
def test_a_curriculum_grows_to_the_value_of_the_place_in_time(growth, stop, values):
    ramp = growth.ramp(stop)
    steps = [0, *ramp.changes()]
    assert [ramp.at(step) for step in steps] == values
    assert steps[-1] <= growth.until


@pytest.mark.parametrize("kind", ["mamba", "gpt2", "linear_attention"])
def test_a_deep_learner_is_the_same_whatever_was_drawn_before(kind):
    section = DeepLearner.model_validate(deep(kind))
    prompts, test = SingleIndex(4, 2, "he3"), SingleIndex(4, 2, "he3").sample(Stream(5), 8, 12, 2)
    first = section.learner(prompts, Stream(3), [12])
    torch.manual_seed(99)
    before = torch.get_rng_state()
    second = section.learner(prompts, Stream(3), [12])
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.predict(test), second.predict(test))
    assert first.training_curve == second.training_curve
    assert not torch.equal(first.predict(test), section.learner(prompts, Stream(4), [12]).predict(test))


def test_a_cell_measures_the_error_while_training_and_at_every_length():
    measured = error.run_cell(config(mamba=deep(curriculum={"intrinsic_dim": {"until": 4}}), gpt2=deep("gpt2")))
    curve = {m.keys["step"]: m.value for m in measured if m.metric == "training_error" and m.learner == "mamba"}
    assert sorted(curve) == [6, 12]
    assert all(0 < value < 100 for value in curve.values())
    errors = [m for m in measured if m.metric == "squared_error" and m.learner == "gpt2"]
    assert [m.num_examples for m in errors] == [0, 4, 12]
    assert all(np.isfinite(m.samples).all() and m.num_prompts == 8 for m in errors)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (deep(curriculum={"ambient_dim": {"until": 12}}), "the ramp of ambient_dim ends at step"),
        (deep(curriculum={"ambient_dim": {"start": 5, "until": 6}}), "expected one that grows"),
        (deep(curriculum={"ambient_dim": {"until": 6}}), "as many active coordinates"),
        (deep(warmup_steps=100), "warmup_steps"),
        (deep() | {"backbone": {"kind": "gpt2", "width": 9, "heads": 2}}, "expected heads that divide it"),
        (deep(batch_size=8 * 10**9), "memory"),
    ],
)
def test_what_training_would_refuse_is_refused_before_it(section, words):
    with pytest.raises(InputError, match=words):
        error.check(config(mamba=section))


def test_the_report_tells_when_each_model_learned(tmp_path):
    text = yaml.safe_dump(config(mamba=deep(), gpt2=deep("gpt2")).model_dump(mode="json", exclude={"seed"}))
    definition = {"title": "mini", "question": "q", "kind": "error", "config": yaml.safe_load(text)}
    path = tmp_path / "mini.yaml"
    path.write_text(yaml.safe_dump(definition))
    threads = torch.get_num_threads()
    run_experiment(resolve(str(path), ["seed=0,1"]), tmp_path / "out", engine="inline", quiet=True)
    torch.set_num_threads(threads)
    reading = error.KIND.summarise(load_results(tmp_path / "out"))
    (panel,) = next(figure for figure in reading.figures if figure.name == "training").panels
    assert {series.label for series in panel.series} == {"mamba", "gpt2"}
    assert all(list(series.x) == [6, 12] and len(series.seeds) == 2 for series in panel.series)
    table = next(table for table in reading.tables if table.name == "learned")
    assert sorted(list(map(str, row[1:3])) for row in table.rows) == [
        [name, "> 12, > 12"] for name in ("gpt2", "mamba")
    ]
    counts = next(table for table in reading.tables if table.name == "sizes")
    assert sorted(str(row[1]) for row in counts.rows) == ["gpt2", "mamba"]


def test_the_device_of_a_run_reaches_the_training_of_its_deep_models():
    if torch.cuda.is_available():
        pytest.skip("a machine with CUDA would train there")
    section = DeepLearner.model_validate(deep("mamba"))
    with executing(Execution("cuda")), pytest.raises(InputError, match="device is 'cuda'"):
        section.learner(SingleIndex(4, 2, "he3"), Stream(3), [12])


@pytest.mark.parametrize(("device", "message"), [("tpu", "expected one of cpu, cuda, mps"), ("cuda:99", "device is")])
def test_a_run_on_a_device_that_is_not_here_is_refused_before_anything_is_written(tmp_path, device, message):
    resolved = resolve("oh2025/gate-ablation", ["seed=0"])
    with pytest.raises(InputError, match=message):
        run_experiment(resolved, tmp_path / "run", device=device, quiet=True)
    assert not (tmp_path / "run").exists()


def test_the_forecast_for_a_gpu_counts_steps_and_the_slower_of_launching_and_computing():
    small, large = Work(1e6, 1e6, calls=100), Work(15e12, 1e12, calls=100)
    assert small.gpu_seconds == pytest.approx(100 * 6e-6)
    assert large.gpu_seconds == pytest.approx(2.0)
    section = DeepLearner.model_validate(deep("gpt2", steps=12, evaluate_every=12))
    double = DeepLearner.model_validate(deep("gpt2", steps=24, evaluate_every=12))
    assert double.gpu_seconds() == pytest.approx(2 * section.gpu_seconds())
    assert resolve("oh2025/alignment").gpu_seconds == 0
    paper, laptop = (resolve("oh2025/gate-ablation", [f"scale={scale}"]).gpu_seconds for scale in ("paper", "laptop"))
    assert paper > 10 * laptop > 0


def test_a_training_is_done_once_and_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    section = DeepLearner.model_validate(deep("mamba"))
    prompts, test = SingleIndex(4, 2, "he3"), SingleIndex(4, 2, "he3").sample(Stream(5), 8, 12, 2)
    plain = section.learner(prompts, Stream(3), [12])
    kept, taken = Execution(trainings=tmp_path / "a"), Execution(trainings=tmp_path / "b", shared=(tmp_path / "a",))

    # Interrupted at step 7: what is left is a checkpoint of an earlier step.
    taking = Trainer._take_step

    def stop_at_seven(self, *arguments):
        if self.step == 7:
            raise KeyboardInterrupt
        taking(self, *arguments)

    monkeypatch.setattr(Trainer, "_take_step", stop_at_seven)
    with executing(kept), pytest.raises(KeyboardInterrupt):
        section.learner(prompts, Stream(3), [12])
    steps = []
    monkeypatch.setattr(Trainer, "_take_step", lambda self, *a: (steps.append(self.step), taking(self, *a)))
    with executing(kept):
        resumed = section.learner(prompts, Stream(3), [12])
    assert 0 < steps[0] <= 7
    assert steps[-1] == 11

    # Finished: neither here nor from another run is a step taken again; another label is no other training.
    steps.clear()
    renamed = DeepLearner.model_validate(deep("mamba") | {"label": "something else"})
    with executing(kept):
        again = renamed.learner(prompts, Stream(3), [12])
    with executing(taken):
        copied = section.learner(prompts, Stream(3), [12])
    assert steps == []
    for model in (resumed, again, copied):
        assert torch.equal(model.predict(test), plain.predict(test))
        assert model.training_curve == plain.training_curve

    # Another seed, distribution or number of threads is another training.
    with executing(kept):
        section.learner(prompts, Stream(4), [12])
        section.learner(SingleIndex(4, 2, "he2"), Stream(3), [12])
    with executing(Execution(trainings=tmp_path / "a", threads=2)):
        section.learner(prompts, Stream(3), [12])
    assert steps == [*range(12)] * 3
    assert len(list((tmp_path / "a").iterdir())) == 4
    described = [json.loads(path.read_text()) for path in (tmp_path / "a").glob("*/training.json")]
    assert {d["seed"] for d in described} == {3, 4}


def test_cells_with_one_training_wait_for_each_other(tmp_path):
    section, prompts = DeepLearner.model_validate(deep("mamba")), SingleIndex(4, 2, "he3")

    def learn(_):
        with executing(Execution(trainings=tmp_path)):
            return section.learner(prompts, Stream(3), [12]).training_curve

    with ThreadPoolExecutor(3) as pool:
        curves = list(pool.map(learn, range(3)))
    assert curves[0] == curves[1] == curves[2]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_training_that_another_run_is_at_is_not_copied(tmp_path):
    section, prompts = DeepLearner.model_validate(deep("mamba")), SingleIndex(4, 2, "he3")
    with executing(Execution(trainings=tmp_path / "a")):
        plain = section.learner(prompts, Stream(3), [12])
    (source,) = (tmp_path / "a").iterdir()

    def taken(name: str) -> bool:
        """Whether the checkpoints came from the other run: they hold its seconds, which nothing computes twice."""
        with executing(Execution(trainings=tmp_path / name, shared=(tmp_path / "a",))):
            curve = section.learner(prompts, Stream(3), [12]).training_curve
        assert curve == plain.training_curve
        assert not list((tmp_path / name).glob("*/.*"))
        own = tmp_path / name / source.name / "checkpoints" / "metrics.jsonl"
        return own.read_bytes() == (source / "checkpoints" / "metrics.jsonl").read_bytes()

    assert taken("while nobody is at it")
    with locked(source):
        assert not taken("while it is trained")
    (source / "checkpoints" / "metrics.jsonl").rename(source / "metrics")
    (source / "checkpoints" / "metrics.jsonl").symlink_to(source / "gone")
    with executing(Execution(trainings=tmp_path / "damaged", shared=(tmp_path / "a",))):
        assert section.learner(prompts, Stream(3), [12]).training_curve == plain.training_curve
    (source / "checkpoints" / "metrics.jsonl").unlink()
    (source / "metrics").rename(source / "checkpoints" / "metrics.jsonl")
    (source / LOCK).unlink()
    assert taken("from a copy without locks")
