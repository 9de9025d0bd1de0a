"""``iclab exponents``."""

from __future__ import annotations

import json

import click

from iclab.cli.output import print_json
from iclab.errors import InputError


@click.command("exponents", context_settings={"ignore_unknown_options": True})
@click.argument("link")
@click.option("--rho", type=float, help="Temperature of the gate sigmoid(y/rho + b); with --b for one gate.")
@click.option("--b", "offset", type=float, help="Offset of the gate.")
@click.option("--noise", type=float, default=0.0, show_default=True, help="Label noise, +noise or -noise.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def exponents_command(link: str, rho: float | None, offset: float | None, noise: float, as_json: bool) -> None:
    """Information and generative exponents of LINK, before and after Mamba's gate, and the rates they give.

    LINK is a name (he3, relu), an expression in z ("z**3 - 3*z"), or normalised Hermite coefficients ("[0,0,0,1]").
    """
    if link.startswith("--"):
        raise InputError(f"no option {link!r}; see `iclab exponents --help`")
    from iclab.experiments.overrides import check_text
    from iclab.links import make_link
    from iclab.theory.describe import describe_link
    from iclab.theory.describe_text import format_description

    check_text("the link", link)
    description = describe_link(make_link(_read(link)), rho, offset, noise)
    if as_json:
        print_json(description)
    else:
        click.echo(format_description(description).rstrip("\n"))


def _read(link: str) -> str | list[float]:
    if not link.strip().startswith("["):
        return link
    try:
        return [float(number) for number in json.loads(link)]
    except (ValueError, TypeError):
        raise InputError(f"the link {link!r} is no list of numbers; expected [c0,c1,...]") from None
