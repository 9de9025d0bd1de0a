"""``key=value`` arguments beside options."""

from __future__ import annotations

from collections.abc import Sequence

import click

from iclab.errors import InputError

OVERRIDE_SETTINGS = {"ignore_unknown_options": True}
"""Lets ``--prompts.noise=0`` through to the overrides, where it means the same as without the dashes."""


def check_overrides(context: click.Context, overrides: Sequence[str]) -> Sequence[str]:
    """Refuse what is neither an option of this command nor ``key=value``.

    Raises:
        InputError: naming the nearest option.
    """
    from iclab.errors import did_you_mean

    options = [name for parameter in context.command.params for name in parameter.opts if name.startswith("--")]
    for argument in overrides:
        name, equals, _ = argument.partition("=")
        # `--worker=2` is a misspelt option, `--seed=2` an override: only the first resembles an option closely.
        misspelt = equals and name.startswith("--") and did_you_mean(name, options) and _near(name, options)
        if argument.startswith("-") and (not equals or misspelt):
            raise InputError(f"no option {name!r}{did_you_mean(name, options)}; `iclab {context.info_name} --help`")
    return overrides


def _near(name: str, options: Sequence[str]) -> bool:
    from difflib import get_close_matches

    return bool(get_close_matches(name, options, n=1, cutoff=0.85))
