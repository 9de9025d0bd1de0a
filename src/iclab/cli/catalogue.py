"""``iclab list`` and ``iclab show``."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import click

from iclab.cli.arguments import OVERRIDE_SETTINGS, check_overrides
from iclab.cli.output import print_json

if TYPE_CHECKING:
    from iclab.experiments.resolved import Resolved


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(as_json: bool) -> None:
    """List the experiments of the catalogue."""
    from iclab.experiments.definitions import catalogue_names, load_definition

    definitions = [load_definition(name) for name in catalogue_names()]
    if as_json:
        fields = ("name", "title", "question", "source", "kind")
        print_json([{key: getattr(d, key) for key in fields} | {"scales": d.scale_names} for d in definitions])
        return
    width = max((len(d.name) for d in definitions), default=0)
    for definition in definitions:
        click.echo(f"{definition.name:<{width}}  {definition.title}")


@click.command("show", context_settings=OVERRIDE_SETTINGS)
@click.argument("name")
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED, metavar="[KEY=VALUE]...")
@click.option("--keys", "as_keys", is_flag=True, help="List every key that can be set: meaning, values, default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def show_command(context: click.Context, name: str, overrides: tuple[str, ...], as_keys: bool, as_json: bool) -> None:
    """Show what an experiment asks, and its configuration with the overrides applied.

    NAME is an experiment of `iclab list`, or the path of a YAML file.
    """
    from iclab.experiments.resolved import resolve

    # Types are checked here, the mathematics when it runs: that needs the numeric libraries.
    resolved = resolve(name, check_overrides(context, overrides), check=False)
    if as_keys:
        _print_keys(resolved, as_json)
    elif as_json:
        description = {key: value for key, value in resolved.to_json().items() if key != "cells"}
        scales = resolved.definition.scale_names
        numbers = {name: getattr(resolved, name) for name in ("seconds", "gpu_seconds", "disk")}
        print_json(description | {"scales": scales, "num_cells": len(resolved.cells)} | numbers)
    else:
        _print(resolved)


def _print_keys(resolved: Resolved, as_json: bool) -> None:
    from dataclasses import asdict

    from iclab.config.reference import keys_of

    keys = keys_of(resolved.kind.config, resolved.cells[0].to_json())
    if as_json:
        print_json([asdict(key) for key in keys])
        return
    for key in keys:
        default = f"; by default {key.default}" if key.default else "; must be given"
        meaning = f"{key.meaning.removesuffix('.')}: " if key.meaning else ""
        click.echo(f"{key.name}\n    {meaning}{key.allowed}{default}")


def _print(resolved: Resolved) -> None:
    import yaml

    from iclab.experiments.cost import GPU_ASSUMPTIONS, dollars
    from iclab.memory import format_bytes
    from iclab.runs.progress import format_seconds

    definition = resolved.definition
    source = f" ({definition.source})" if definition.source else ""
    others = ", ".join(name for name in definition.scale_names if name != resolved.scale)
    click.echo(f"{definition.title}{source}\n{definition.question}\n")
    click.echo(f"experiment: {definition.name}\nkind: {definition.kind}")
    click.echo(f"scale: {resolved.scale}" + (f" (also: {others})" if others else ""))
    click.echo("grid:" + ("" if resolved.grid else " none"))
    for key, values in resolved.grid.items():
        click.echo(f"  {key}: {json.dumps(values)}")
    count = "1 cell" if len(resolved.cells) == 1 else f"{len(resolved.cells)} cells"
    seconds = resolved.seconds
    forecast = (
        "of a duration that its kind does not know"
        if math.isnan(seconds)
        else f"about {format_seconds(seconds)} on one core"
    )
    click.echo(f"cells: {count}, {forecast}")
    disk = resolved.disk
    if disk is not None:
        click.echo(f"disk: about {format_bytes(disk)}")
    if resolved.gpu_seconds:
        price = f"{dollars(resolved.gpu_seconds):.2g} dollars"
        click.echo(f"trainings on one GPU: about {format_seconds(resolved.gpu_seconds)}, {price} ({GPU_ASSUMPTIONS})")
    click.echo(f"folder: runs/{resolved.folder_name}")
    click.echo("config of the first cell:")
    text = yaml.safe_dump(resolved.cells[0].to_json(), allow_unicode=True, sort_keys=False)
    click.echo("".join(f"  {line}\n" for line in text.splitlines()), nl=False)
