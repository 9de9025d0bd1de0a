"""The one error that means "the input is wrong": a single line that a person can act on."""


class InputError(ValueError):
    """Wrong input. The message says what was found, what was expected and what to do next, on one line.

    It is a ``ValueError``, so library users catch it as usual; the command line prints it and exits with code 2.
    """


def check_integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return ``value`` as an ``int`` in ``[low, high]``; raise `InputError` otherwise (booleans are refused)."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(f"{name} is {value!r}; expected an integer >= {low}")
    number = int(value.__index__())  # type: ignore[attr-defined]
    if number < low or (high is not None and number > high):
        bound = f">= {low}" if high is None else f"in [{low}, {high}]"
        raise InputError(f"{name} is {number}; expected an integer {bound}")
    return number


def check_flag(name: str, value: object) -> bool:
    """Return ``value``; raise `InputError` unless it is ``True`` or ``False``."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}; expected True or False")
    return value


def check_positive(name: str, value: float) -> float:
    """Return ``value`` as a finite positive ``float``; raise `InputError` otherwise."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} is {value!r}; expected a positive number") from None
    if not 0.0 < number < float("inf"):
        raise InputError(f"{name} is {number}; expected a finite number > 0")
    return number
