"""``iclab exponents``."""

from __future__ import annotations

import json

import click

from iclab.cli.output import print_json
from iclab.errors import InputError, cut, read_number


@click.command("exponents", context_settings={"ignore_unknown_options": True})
@click.argument("link")
@click.option("--rho", metavar="NUMBER", help="Temperature of the gate sigmoid(y/rho + b); with --b for one gate.")
@click.option("--b", "offset", metavar="NUMBER", help="Offset of the gate.")
@click.option("--noise", metavar="NUMBER", default="0", show_default=True, help="Label noise, +noise or -noise.")
@click.option(
    "--breakpoints", metavar="Z1,Z2,...", default="", help="Points where LINK has a kink, a jump or a narrow feature."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def exponents_command(
    link: str, rho: str | None, offset: str | None, noise: str, breakpoints: str, as_json: bool
) -> None:
    """Information and generative exponents of LINK, before and after Mamba's gate, and the rates they give.

    LINK is a name (he3, relu), an expression in z ("z**3 - 3*z"), or normalised Hermite coefficients ("[0,0,0,1]").
    Kinks, jumps and narrow features of an expression are found; --breakpoints adds to them.
    """
    if link.startswith("--"):
        raise InputError(f"no option {link!r}; see `iclab exponents --help`")
    from iclab.config.overrides import check_text

    check_text("the link", link)
    gate_rho = None if rho is None else read_number("--rho", rho)
    gate_b = None if offset is None else read_number("--b", offset)
    tau = read_number("--noise", noise)
    points = [read_number("a breakpoint", part) for part in breakpoints.split(",")] if breakpoints.strip() else []
    spec = _read(link)

    from iclab.links import make_link
    from iclab.theory.describe import describe_link
    from iclab.theory.describe_text import format_description

    description = describe_link(make_link(spec, breakpoints=points), gate_rho, gate_b, tau)
    if as_json:
        print_json(description)
    else:
        click.echo(format_description(description).rstrip("\n"))


def _read(link: str) -> str | list[float]:
    """The argument LINK as `make_link` takes it: a list is read as JSON, each of its numbers from its own digits."""
    if not link.strip().startswith("["):
        return link
    wrong = InputError(f"the link {cut(link)} is no list of numbers; expected [c0,c1,...]")
    try:
        numbers = json.loads(link, parse_int=_Digits, parse_float=_Digits, parse_constant=_Digits)
    except (ValueError, RecursionError):
        raise wrong from None
    if not all(isinstance(number, _Digits) for number in numbers):
        raise wrong
    return [read_number(f"c{k} of the link {cut(link)}", number) for k, number in enumerate(numbers)]


class _Digits(str):
    """A number of a list as it was written."""
