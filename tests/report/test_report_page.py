"""The page: its structure, that nothing of it comes from outside, and that everything in it is escaped."""

from __future__ import annotations

import base64
import csv
import io
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from iclab.claims.claim import Claim, ClaimResult, Verdict
from iclab.errors import InputError
from iclab.experiments import registry
from iclab.report import build_report, render_report
from iclab.results.page import Figure, Panel, Report, Series, Table

HOSTILE = (
    '<script>alert(\'x\')</script>" onload="alert(1)" </svg><img src=x onerror=alert(2)> {{ 7*7 }} $\\frac{1}{2$ =1+1'
)
# Elements inside a word.
TERM = {"var", "sub", "sup"}
VOID = {"meta", "br", "img", "hr", "link", "input"}

MAMBA = Series(
    "Mamba", [64, 256, 1024], [0.5, 1 / 3, 0.1], [0.4, 0.3, 0.05], [0.6, 0.4, 0.2], [[0.5, 0.3, 0.1]], "model", "95 %"
)
THEORY = Series("theory", [64, 1024], [0.5, 0.1], role="theory")


def claimed(sentence: str, verdict: Verdict, at: str = "") -> ClaimResult:
    claim = Claim(sentence, sentence, "arXiv 2510.12026", "slope", "<", 1.0)
    return ClaimResult(claim, verdict, "not measured", at=at)


REPORT = Report(
    claims=[
        claimed("the slope is −0.50", "supported"),
        claimed("it is not", "contradicted"),
        claimed("seeds", "undecided"),
        claimed("elsewhere", "not applicable"),
        claimed("at many", "supported", "r = 2"),
        claimed("at many", "contradicted", "r = 4"),
    ],
    notes=["All learners see the same prompts."],
    figures=[
        Figure("error", "Error against N.", [
            Panel("r = 2", "N", "error", [MAMBA, THEORY], "log2", "log"),
            Panel("r = 4", "N", "error", [MAMBA], "log2", "log", horizontal=[(1, "zero predictor")]),
        ]),
        Figure("Error", "The same name in capitals.", [Panel("", "N", "y", [MAMBA])]),
    ],
    tables=[Table("slopes", "Slopes.", ["learner", "slope"], [["Mamba", -0.512345], ["ridge", None]])],
    methods=["Seeds first, then prompts."],
)  # fmt: skip
EXPERIMENT: dict[str, Any] = {
    "schema_version": 1,
    "experiment": "oh2025/alignment",
    "title": "Alignment",
    "question": "How many examples?",
    "source": "arXiv 2510.12026",
    "scale": "laptop",
    "kind": "alignment",
    "run_id": "3f2a9c01b7",
    "config": {"seed": 0, "prompts": {"ambient_dim": 16}},
    "grid": {"seed": [0, 1, 2], "prompts.link": [[0, 0, 1], "tanh"]},
    "axes": {},
    "cells": [{"id": "c1", "config": {}, "labels": {}}, {"id": "c2", "config": {}, "labels": {}}],
}
ENVIRONMENT: dict[str, Any] = {
    "iclab": "0.1.0", "git_commit": "1f6ad17", "git_dirty": True, "machine": "lab", "cpu": "EPYC", "threads": 1,
    "seconds": 200.0, "command": ["iclab", "run", "a b"], "memory_bytes": 16 * 2**30,
    "previous": [{"seconds": 100.0}, {"seconds": None}],
}  # fmt: skip


class Page(HTMLParser):
    """Elements with their attributes, the visible text, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.stack: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        self._separate(tag)
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag
        self._separate(tag)

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def _separate(self, tag: str) -> None:
        if tag not in TERM:
            self.words.append(" ")

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def downloads(self) -> dict[str, str]:
        links = {a["download"]: a["href"] for a in self.all("a")}
        return {str(name): base64.b64decode(str(link).partition("base64,")[2]).decode() for name, link in links.items()}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    (folder / "results.csv").write_text("cell,value\na,0.25\n")
    files = [folder / "results.csv", folder / "missing.csv"]
    assert (
        render_report(REPORT, EXPERIMENT, ENVIRONMENT, folder, files, sampling={"seeds": "3"}) == folder / "report.html"
    )
    return folder


@pytest.fixture(scope="module")
def page(run: Path) -> Page:
    return Page((run / "report.html").read_text(encoding="utf-8"))


def test_files(run: Path) -> None:
    names = sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
    figures = [f"figures/{name}.{ending}" for name in ("Error-2", "error") for ending in ("png", "svg")]
    assert names == [*figures, "report.html", "results.csv"]


def test_sections_findings_and_provenance(page: Page) -> None:
    text = page.text
    order = ["Alignment", "What was asked", "How many examples?", "What was found",
             "✓ supported Claim 'the slope is −0.50'",
             "✗ contradicted Claim 'it is not'", "? undecided Claim 'seeds'", "– not applicable Claim 'elsewhere'",
             "? undecided Claim 'at many'", "✓ supported r = 2", "✗ contradicted r = 4",
             "i note All learners", "Figures",
             "Figure 1. Error against N.", "Figure 2.", "Table 1. Slopes.", "−0.5123", "Notes", "Configuration",
             "prompts.link [0, 0, 1], tanh", "Provenance"]  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    for words in ("run 3f2a9c01b7", "cells 2", "seeds 3", "took 5 min 0 s", "git commit 1f6ad17", "git dirty yes",
                  "machine lab", "threads 1", "command iclab run 'a b'", "memory 16 GB",
                  '"ambient_dim": 16'):  # fmt: skip
        assert words in text, words
    assert "1 supported, 1 contradicted, 2 undecided, 1 not applicable" in text


def test_accessible_structure(page: Page) -> None:
    assert page.all("html") == [{"lang": "en"}]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.all("meta")
    images = [svg for svg in page.all("svg") if svg.get("role") == "img"]
    assert len(images) == 3
    assert images[1]["aria-label"] == (
        "r = 4. error (logarithmic) against N (logarithmic). Mamba: 0.5000 at 64 to 0.1000 at 1024. "
        "Reference lines: zero predictor at 1."
    )
    assert all(svg.get("aria-hidden") == "true" for svg in page.all("svg") if svg.get("role") != "img")
    assert all(th.get("scope") in {"col", "row"} for th in page.all("th"))
    assert len(page.all("figure")) == len(page.all("figcaption")) == 3
    headings = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(headings))
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))


def test_nothing_is_loaded_from_elsewhere_and_no_script_runs(run: Path, page: Page) -> None:
    text = (run / "report.html").read_text(encoding="utf-8")
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert {"http-equiv": "Content-Security-Policy", "content": policy} in page.all("meta")
    assert not {"script", "iframe", "object", "embed", "link", "img", "image", "foreignobject"} & {
        t for t, _ in page.elements
    }
    assert "http://" not in text
    assert "https://" not in text
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        assert all(str(v).startswith(("#", "data:text/csv;")) for n, v in attributes.items() if n.endswith("href"))


def test_downloads_hold_the_data(page: Page) -> None:
    files = page.downloads()
    assert set(files) == {"error.csv", "Error-2.csv", "slopes.csv", "results.csv"}
    assert files["results.csv"] == "cell,value\na,0.25\n"
    rows = list(csv.DictReader(io.StringIO(files["error.csv"])))
    assert [(float(r["x"]), float(r["y"])) for r in rows if r["panel"] == "r = 4"] == [
        (64, 0.5),
        (256, 1 / 3),
        (1024, 0.1),
    ]
    assert [float(r["low"]) for r in rows[:3]] == list(MAMBA.low)
    assert len(rows) == 8
    assert files["slopes.csv"] == "learner,slope\nMamba,-0.512345\nridge,\n"


def test_equal_input_gives_equal_bytes(run: Path, tmp_path: Path) -> None:
    render_report(REPORT, EXPERIMENT, ENVIRONMENT, tmp_path, [run / "results.csv"], sampling={"seeds": "3"})
    for path in (p for p in tmp_path.rglob("*") if p.is_file()):
        assert path.read_bytes() == (run / path.relative_to(tmp_path)).read_bytes(), path


def test_everything_is_escaped(tmp_path: Path) -> None:
    series = Series(HOSTILE, [1, 2], [1, 2], [0, 1], [2, 3], band=HOSTILE)
    axes = Panel(HOSTILE, HOSTILE, HOSTILE, [series], vertical=[(1, HOSTILE)], horizontal=[(1, HOSTILE)])
    report = Report(
        [claimed(HOSTILE, "supported")],
        [HOSTILE],
        [Figure(HOSTILE, HOSTILE, [axes, axes])],
        [Table(HOSTILE, HOSTILE, [HOSTILE, "n"], [[HOSTILE, 1]])],
        [HOSTILE],
    )
    experiment = dict.fromkeys(("experiment", "title", "question", "source", "scale", "run_id", "kind"), HOSTILE)
    experiment |= {"grid": {HOSTILE: [HOSTILE]}, "config": {HOSTILE: [HOSTILE, {"a": HOSTILE}]}}
    environment = {HOSTILE: HOSTILE, "git": {HOSTILE: [HOSTILE]}, "command": [HOSTILE]}
    render_report(report, experiment, environment, tmp_path, sampling={HOSTILE: HOSTILE})
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert not {"script", "img"} & {tag for tag, _ in page.elements}
    assert not [n for _, attributes in page.elements for n in attributes if n.startswith("on")]
    assert page.text.count("{{ 7*7 }}") > 15
    assert "49" not in page.text
    (stem,) = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert re.fullmatch(r"[A-Za-z0-9._-]+", stem)
    svg = (tmp_path / "figures" / f"{stem}.svg").read_text(encoding="utf-8")
    assert "<script" not in svg
    assert "<!--" not in svg
    # The first name is the figure's, the text of the title element; every cell of the CSV is text, not a formula.
    rows = list(csv.reader(io.StringIO(page.downloads()[f"{stem}.csv"])))
    assert rows[1][0] == HOSTILE


def test_an_empty_report_and_an_unknown_environment(tmp_path: Path) -> None:
    render_report(Report(), {}, {}, tmp_path / "new")
    page = Page((tmp_path / "new" / "report.html").read_text(encoding="utf-8"))
    assert "states no findings" in page.text
    assert not page.all("figure")


def test_a_report_of_tables_and_claims_alone(tmp_path: Path) -> None:
    tables = [Table("t", "Slopes.", ["prompts", "learner", "slope"], [["", "Mamba", 1.0], [None, "ridge", None]])]
    render_report(Report([claimed("it is", "supported")], tables=tables), {}, {}, tmp_path)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "Figures" not in page.text
    assert "✓ supported Claim 'it is'" in page.text
    assert list((tmp_path / "figures").iterdir()) == []
    # The column without content is on the page's table no more, and in the download still.
    assert [th["scope"] for th in page.all("th")] == ["col", "col", "row", "row"]
    assert "learner slope Mamba 1.000 ridge –" in page.text
    assert page.downloads()["t.csv"] == "prompts,learner,slope\n,Mamba,1.0\n,ridge,\n"
    render_report(Report(tables=tables), {}, {}, tmp_path)
    assert "the tables below are its result" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_table_that_is_empty_throughout_keeps_its_columns(tmp_path: Path) -> None:
    render_report(Report(tables=[Table("t", "", ["a", "b"], [["", None]])]), {}, {}, tmp_path)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "a b" in page.text
    assert len(page.all("th")) == 3


def test_tables_scroll_by_themselves_and_say_so(tmp_path: Path) -> None:
    def wide(columns: int, rows: int) -> Table:
        return Table("t", "", [f"c{i}" for i in range(columns)], [list(range(columns))] * rows)

    render_report(Report(tables=[wide(7, 31), wide(2, 30)]), {}, {}, tmp_path)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert [a["class"] for a in page.all("div") if a.get("role") == "region"] == ["scroll tall", "scroll"]
    assert page.text.count("Scroll the table sideways") == 1
    assert "for all 7 columns" in page.text


STRANGE: dict[str, Any] = {
    "seconds": "soon", "memory_bytes": [1], "previous": 5, "command": "text", "iclab": {"version": None},
    "numbers": {"a": [{"b": float("inf")}, None, 1e400]}, "": "nameless", "flag": True, "many": [[]] * 3,
}  # fmt: skip


@pytest.mark.parametrize("changes", [
    {}, {"seconds": True, "previous": "x"}, {"seconds": float("nan"), "previous": {"seconds": 3}},
    {"seconds": float("inf"), "memory_bytes": float("nan"), "previous": [None, 3, {"seconds": "x"}]},
    {"seconds": -1.0, "memory_bytes": None, "previous": None, "command": {"a": 1}},
])  # fmt: skip
def test_an_environment_of_unknown_form_is_shown_as_it_is(changes: dict[str, Any], tmp_path: Path) -> None:
    render_report(REPORT, EXPERIMENT, {**STRANGE, **changes}, tmp_path)
    text = Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "numbers: a [{b: inf}, –, inf]" in text
    assert "flag yes" in text
    if not changes:
        assert "seconds soon" in text
        assert "took" not in text


def test_exact_results_name_no_seeds_and_no_prompts(tmp_path: Path) -> None:
    exact = pd.DataFrame({"num_seeds": [1], "num_prompts": [0], "interval": ["exact"], "level": [float("nan")]})
    found = SimpleNamespace(experiment=EXPERIMENT, summary=exact, num_cells=2, num_finished=2)
    text = Page(build_report(found, tmp_path, Report()).read_text(encoding="utf-8")).text  # type: ignore[arg-type]
    assert "Exact: computed without sampling" in text
    assert "seeds" not in text.partition("Configuration")[0]
    assert "prompts per value" not in text


def test_a_report_that_cannot_be_drawn_changes_nothing(tmp_path: Path) -> None:
    report = Report(figures=[Figure("f", "", [Panel("", "", "", [Series("a", [1], [])])])])
    with pytest.raises(InputError, match="expected equal lengths"):
        render_report(report, {}, {}, tmp_path)
    with pytest.raises(InputError, match="row 1 of table 't' has 1 cells"):
        render_report(Report(tables=[Table("t", "", ["a", "b"], [[1]])]), {}, {}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def results(finished: int) -> Any:
    summary = pd.DataFrame({
        "num_seeds": [3, 3, 2], "num_prompts": [0, 1024, 512], "interval": ["exact", "range", "range"],
        "level": [float("nan")] * 3,
    })  # fmt: skip
    return SimpleNamespace(experiment=EXPERIMENT, summary=summary, num_cells=2, num_finished=finished)


def test_build_report_reads_the_kind_and_the_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def load_kind(name: str) -> Any:
        asked.append(name)
        return SimpleNamespace(summarise=lambda got: Report(notes=[f"{got.num_finished} cells were read."]))

    monkeypatch.setattr(registry, "load_kind", load_kind)
    (tmp_path / "environment.json").write_text(json.dumps(ENVIRONMENT))
    (tmp_path / "summary.csv").write_text("a\n1\n")
    (tmp_path / "claims.json").write_text("[]\n")
    text = Page(build_report(results(2), tmp_path).read_text(encoding="utf-8")).text
    assert asked == ["alignment"]
    assert "2 cells were read." in text
    assert "seeds 2 to 3" in text
    assert text.count("Range (2 to 3 seeds): the smallest and the largest seed") == 1
    assert "prompts per value 512 to 1024" in text
    assert "cpu EPYC" in text
    assert "All numbers: summary.csv claims.json" in text
    assert "Only" not in text

    (tmp_path / "environment.json").write_text("{broken")
    text = Page(build_report(results(1), tmp_path).read_text(encoding="utf-8")).text
    assert "Only 1 of 2 cells are finished; everything below is of those." in text
    assert "environment.json is missing or damaged" in text
