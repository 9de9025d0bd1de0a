"""``iclab doctor``."""

from __future__ import annotations

import click

from iclab.cli.output import print_json


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor_command(context: click.Context, as_json: bool) -> None:
    """Say what this machine offers, and whether a run can be made in this folder."""
    from iclab.runs.doctor import examine

    findings = examine()
    if as_json:
        print_json(findings)
    else:
        for section, entries in findings.items():
            click.echo(f"{section}:")
            for key, value in entries.items():
                click.echo(f"  {key}: {_show(value)}")
    if not all(findings["checks"].values()):
        context.exit(1)


def _show(value: object) -> str:
    match value:
        case True:
            return "yes"
        case False:
            return "no"
        case None:
            return "unknown"
        case list():
            return ", ".join(map(str, value)) or "none"
    return str(value)
