"""Configurations of the outlier trainings, gates and attacks: those that are refused, and those of the catalogue."""

from pathlib import Path

import pytest

from iclab.errors import InputError
from iclab.experiments.resolved import resolve
from outlier_dynamics_files import write_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("kinds"))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("attention", ["learners.deep.label=Mamba"], "learners are called Mamba, Mamba; expected distinct names"),
        ("attention", ["prompts.relevant=7"], "prompts: 7 relevant, 2 irrelevant and 2 outlier patterns"),
        ("attention", ["learners.mamba.training.steps=1000000000000000"], "learners.mamba.training.steps"),
        ("convergence", ["vary.relevant=[3,3]"], "vary.relevant is \\[3, 3\\]; expected distinct values"),
        ("convergence", ["vary.relevant=[9]"], "vary.relevant = 9: 9 relevant"),
        ("convergence", ["levels=[0.5,0.5]"], "levels are \\[0.5, 0.5\\]"),
        (
            "convergence",
            ["vary.outlier_fraction=[0.1]", "learners.linear.prompts.outlier_fraction=0.2"],
            "leave one of them unset",
        ),
        (
            "attention",
            ["learners.mamba.training.until_loss=0.5"],
            "until_loss is 0.5; here seeds would stop at different steps, so leave it out",
        ),
        (
            "convergence",
            ["learners.linear.training.until_loss=0.5"],
            "until_loss is 0.5; here a training ends at the lowest of levels",
        ),
        ("attention", ["levels=[0.2]"], "levels is \\[0.2\\] and changes nothing: nothing is varied"),
        ("convergence", ["probes=3"], "probes is 3 and changes nothing: vary is set"),
        ("convergence", ["probe_prompts=16"], "probe_prompts is 16 and changes nothing"),
        ("gates", ["test.outlier_size=50"], "test.outlier_size is 50 and changes nothing: outlier_sizes, here"),
        ("gates", ["test.outlier_size=2.0,3.0"], "test.outlier_size is 3 and changes nothing"),
        ("attack", ["test.outlier_size=50"], "test.outlier_size is 50 and changes nothing: test.outlier_fraction is 0"),
        ("attack", ["test.placement=closest"], "test.placement is closest and changes nothing"),
        ("gates", ["learners.deep.kind=softmax"], "learners.deep.kind is 'softmax', which has no gates"),
        ("gates", ["test.outlier_fraction=0"], "test.outlier_fraction is 0; expected a number between 0 and 1"),
        ("gates", ["fitted=8"], "about 4.2 clean examples; expected no more"),
        ("gates", ["outlier_sizes=[2,2]"], "outlier_sizes are \\[2.0, 2.0\\]"),
        ("gates", ["test.coefficients=[[1,2,3]]"], "test: number 0 of the coefficients is a vector of length 3"),
        ("attack", ["sizes=[1,1]"], "sizes are \\[1.0, 1.0\\]; expected distinct sizes"),
        ("attack", ["test.coefficients=[[1]]"], "test: number 0 of the coefficients"),
        ("attack", ["test.tasks=[[0,0]]"], "test: a task is \\(0, 0\\)"),
        ("attack", ["learners.linear.prompts.tasks=7"], "learners.linear.prompts: tasks is 7"),
    ],
)
def test_wrong_configurations_are_refused_before_anything_is_run(
    folder: Path, name: str, arguments: list[str], message: str
):
    with pytest.raises(InputError, match=message) as caught:
        resolve(str(folder / f"{name}.yaml"), arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["attention", "convergence", "gates", "attack"])
def test_the_catalogue_has_laptop_and_full(name: str):
    for scale in ("laptop", "full"):
        resolved = resolve(f"li2025/{name}", [f"scale={scale}"])
        assert len({cell.config.seed for cell in resolved.cells}) >= 5  # type: ignore[attr-defined]
        assert 0 < resolved.seconds < (3600 if scale == "laptop" else 2 * 86400)
