"""``iclab run`` and ``iclab report``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iclab.cli.arguments import OVERRIDE_SETTINGS, check_overrides
from iclab.cli.output import print_path
from iclab.runs.executors import EXECUTORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from iclab.runs.plan import Plan
    from iclab.runs.run import Outcome


class _Folder(click.Path):
    """A folder that may not be there yet; an empty name is refused, which would be the working folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.fspath(value):
            self.fail("the name is empty; expected a folder, such as . for the working folder", param, ctx)
        return super().convert(value, param, ctx)


@click.command("run", context_settings=OVERRIDE_SETTINGS)
@click.argument("name")
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED, metavar="[KEY=VALUE]...")
@click.option("--out", type=_Folder(), help="Run folder; by default runs/NAME-SCALE-ID.")
@click.option("--engine", metavar="NAME", help=f"{', '.join(EXECUTORS)}, or module:Class; see docs/running.md.")
@click.option("--workers", type=click.IntRange(1), help="Cells at once; by default as many as the cores carry.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads of each cell.")
@click.option("--device", default="cpu", show_default=True, help="Of deep models: cpu, cuda, cuda:1 or mps.")
@click.option(
    "--reuse",
    type=_Folder(),
    multiple=True,
    metavar="DIR",
    help="Take finished cells of the same configuration from another run; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Print cells, time, memory and disk of the run; write nothing.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.pass_context
def run_command(
    context: click.Context,
    name: str,
    overrides: tuple[str, ...],
    out: Path | None,
    engine: str | None,
    workers: int | None,
    threads: int,
    device: str,
    reuse: tuple[Path, ...],
    dry_run: bool,
    quiet: bool,
) -> None:
    """Run an experiment. The same command continues an interrupted run and retries failed cells.

    NAME is an experiment of `iclab list`, or the path of a YAML file.

    \b
    scale=full            the scale; laptop by default
    key=value             sets a key that `iclab show NAME` lists
    key=a,b  seed=0..9    sweeps it
    """
    from iclab.runs.threads import check_most, set_thread_variables

    check_most("threads", threads)
    # Before anything imports NumPy or torch: their libraries read it once.
    set_thread_variables(threads, os.environ)
    from iclab.experiments.resolved import resolve
    from iclab.runs.finished import finished_report

    resolved = resolve(name, check_overrides(context, overrides), check=False)
    # Options that say how cells are computed are looked at, too, where none is left to compute.
    plain = engine is None and workers is None and device == "cpu" and not reuse and not dry_run
    page = finished_report(resolved, out) if plain else None
    if page is not None:
        print_path(page)
        return
    from iclab.runs.plan import check_execution, plan_run

    check_execution(engine, workers, threads)
    resolved.check()
    if dry_run:
        _print_plan(plan_run(resolved, out, engine=engine, workers=workers, threads=threads, device=device))
        return
    from iclab.runs.run import run_experiment

    outcome = run_experiment(
        resolved, out, engine=engine, workers=workers, threads=threads, device=device, reuse=reuse, quiet=quiet
    )
    for cell, reason in outcome.failed.items():
        click.echo(f"cell {cell} failed: {reason} (see {outcome.folder / 'cells' / cell / 'error.txt'})", err=True)
    _print(outcome)
    if outcome.failed:
        count = f"{len(outcome.failed)} of {outcome.num_cells} cells failed"
        click.echo(f"{count}; the same command retries them", err=True)
    if outcome.failed or outcome.note:
        context.exit(1)


@click.command("report")
@click.argument("folder", metavar="DIR", type=_Folder())
@click.pass_context
def report_command(context: click.Context, folder: Path) -> None:
    """Make the tables, figures and page of the run in DIR again from its finished cells."""
    from iclab.runs.run import remake

    outcome = remake(folder)
    _print(outcome)
    if outcome.note:
        context.exit(1)


def _print_plan(plan: Plan) -> None:
    from iclab.memory import format_bytes
    from iclab.runs.progress import format_seconds

    def known(value: float | None, form: Callable[[float], str]) -> str:
        return "not known" if value is None else f"about {form(value)}"

    workers = "1 worker" if plan.workers == 1 else f"{plan.workers} workers"
    click.echo(f"folder: {plan.folder}")
    click.echo(f"cells: {plan.num_cells}, {plan.num_finished} of them finished")
    if plan.engine:
        click.echo(f"engine: {plan.engine}, {workers}")
        click.echo(f"time: {known(plan.seconds, format_seconds)}")
        click.echo(f"memory: {known(plan.memory, format_bytes)}")
        click.echo(f"disk: {known(plan.cost.disk, format_bytes)}")


def _print(outcome: Outcome) -> None:
    if outcome.num_finished < outcome.num_cells:
        click.echo(f"{outcome.num_finished} of {outcome.num_cells} cells are finished", err=True)
    if outcome.note:
        click.echo(outcome.note, err=True)
    print_path(outcome.report or outcome.folder)
