"""docs/claims.md has the rules and verdicts of the code, and its example runs."""

import json
import re
from pathlib import Path

import pytest

from iclab.claims import VERDICTS, Claim, Estimate, Interval, Rule, coverage, judge, rules, to_json

PAGE = (Path(__file__).parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")


def table(title: str) -> dict[str, str]:
    rows = re.findall(r"^\| `?([\w ]+)`? \| (.*) \|$", PAGE.partition(title)[2].partition("\n\n")[2], re.MULTILINE)
    return dict(rows[1:])


def test_the_rules_are_those_of_the_code():
    every = [value for module in (rules, coverage) for value in vars(module).values() if isinstance(value, Rule)]
    assert {rule.name: rule.text for rule in every}.items() <= table("## Rules").items()
    assert set(VERDICTS) <= table("# Claims and verdicts").keys()


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    claim = Claim("X1", "the error is small", "here", "error", "<", 1.0)
    result = judge(claim, Estimate(0.5, Interval(0.4, 0.6, 0.95, "bootstrap"), 5, 8), subject="Mamba", at="r = 2")
    (tmp_path / "runs" / "my-run").mkdir(parents=True)
    (tmp_path / "runs" / "my-run" / "claims.json").write_text(json.dumps(to_json([result])))
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(code, "claims.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "X1 Mamba r = 2 supported whole interval" in shown
    assert "{'supported': 1}" in shown
