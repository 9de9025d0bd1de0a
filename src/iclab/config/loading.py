"""Objects by name, ``package.module:object``: what an experiment names is imported when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from iclab.errors import InputError, did_you_mean


def split_name(name: str) -> tuple[str, str] | None:
    """Module and object of ``package.module:object``; ``None`` if ``name`` is not of that form."""
    module, colon, attribute = name.partition(":")
    if colon and attribute.isidentifier() and all(part.isidentifier() for part in module.split(".")):
        return module, attribute
    return None


def load_object(what: str, name: str) -> Any:
    """The object called ``name``.

    Args:
        what: it is, for the message of an error, such as ``the kind``.
        name: ``package.module:object``.

    Raises:
        InputError: for a name of another form, a module that cannot be imported, or an object that is not in it.
    """
    parts = split_name(name)
    if parts is None:
        raise InputError(f"{what} is {name!r}; expected module:object, such as my_module:MyClass")
    module_name, attribute = parts
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:  # the module may be a user's own and raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        missing = isinstance(error, ModuleNotFoundError) and module_name.startswith(str(error.name))
        advice = "put its module beside the YAML file or on PYTHONPATH" if missing else f"fix the module {module_name}"
        raise InputError(f"{what} {name!r} cannot be imported ({reason}); {advice}") from error
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise InputError(
            f"{what} {name!r} does not exist: {module_name} has no {attribute!r}{did_you_mean(attribute, vars(module))}"
        ) from None
