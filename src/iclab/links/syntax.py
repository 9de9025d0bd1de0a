"""Expressions in ``z``: parsed from a whitelist, never run as code, and evaluated on arrays, tensors or polynomials."""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import scipy.special
import torch
from numpy.polynomial import Polynomial, hermite_e

from iclab.errors import InputError
from iclab.links.intervals import softplus

_MAX_LENGTH = 500
MAX_POWER = 60

# name -> (NumPy, torch); the second group has a kink or a jump where its argument is zero.
SMOOTH: dict[str, tuple[Callable, Callable]] = {
    "sin": (np.sin, torch.sin),
    "cos": (np.cos, torch.cos),
    "tan": (np.tan, torch.tan),
    "tanh": (np.tanh, torch.tanh),
    "sinh": (np.sinh, torch.sinh),
    "cosh": (np.cosh, torch.cosh),
    "atan": (np.arctan, torch.atan),
    "exp": (np.exp, torch.exp),
    "log": (np.log, torch.log),
    "sqrt": (np.sqrt, torch.sqrt),
    "erf": (scipy.special.erf, torch.erf),
    "sigmoid": (scipy.special.expit, torch.sigmoid),
    "softplus": (softplus, torch.nn.functional.softplus),
}
KINKED: dict[str, tuple[Callable, Callable]] = {
    "abs": (np.abs, torch.abs),
    "sign": (np.sign, torch.sign),
    "relu": (lambda u: np.maximum(u, 0.0), torch.relu),
    "step": (lambda u: (u > 0) * 1.0, lambda u: (u > 0).to(u.dtype)),
}
_CONSTANTS = {"pi": math.pi, "e": math.e}
HERMITE = {
    f"he{k}": Polynomial(hermite_e.herme2poly([0] * k + [1])) / math.sqrt(math.factorial(k)) for k in range(1, 9)
}
FUNCTIONS = (*SMOOTH, *KINKED, *HERMITE)


def parse(text: str) -> ast.expr:
    if not isinstance(text, str) or not text.strip():
        raise InputError("the link is an empty expression; expected a function of z such as (z**3 - 3*z)/sqrt(6)")
    if len(text) > _MAX_LENGTH:
        raise InputError(f"the link is an expression of {len(text)} characters; expected at most {_MAX_LENGTH}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python warns of literals such as 1if; here they are wrong
            tree = ast.parse(text.strip(), mode="eval").body
        _check(tree, text)
    except (SyntaxError, ValueError, MemoryError, RecursionError, Warning) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"the link {text!r} is no expression in z; expected something like (z**3 - 3*z)/sqrt(6)"
        ) from None
    return tree


def _check(node: ast.expr, text: str) -> None:
    """Walk the syntax tree; raise `InputError` at the first thing that is not whitelisted."""
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            return
        case ast.Name(id=name) if name == "z" or name in _CONSTANTS:
            return
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            _check(operand, text)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow(), right=right):
            _check(left, text)
            _check(right, text)
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
            _check(argument, text)
        case ast.BinOp(op=ast.BitXor()):
            raise InputError(f"the link {text!r} uses ^; write ** for a power")
        case _:
            found = ast.get_source_segment(text.strip(), node) or type(node).__name__
            raise InputError(
                f"the link {text!r} uses {found!r}; expected numbers, z, pi, e, + - * / ** and " + " ".join(FUNCTIONS)
            )


def degree(node: ast.expr) -> float | None:
    """Degree in ``z`` of a checked tree as written (what cancels still counts), or ``None`` if it is no polynomial."""
    match node:
        case ast.Constant():
            return 0
        case ast.Name(id=name):
            return 1 if name == "z" else 0
        case ast.UnaryOp(operand=operand):
            return degree(operand)
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            inner = degree(argument)
            if name in HERMITE and inner is not None:
                return inner * HERMITE[name].degree()
            return 0 if inner == 0 else None
        case ast.BinOp(left=left, op=op, right=right):
            first, second = degree(left), degree(right)
            if first is None or second is None:
                return None
            if isinstance(op, ast.Mult):
                return first + second
            if isinstance(op, ast.Add | ast.Sub):
                return max(first, second)
            if second > 0:
                return None
            if isinstance(op, ast.Div) or first == 0:
                return first
            exponent = evaluate(right, 0.0, "numpy")
            return first * exponent if exponent >= 0 and float(exponent).is_integer() else None
    raise TypeError(f"unchecked node {ast.dump(node)}")


def evaluate(node: ast.expr, z: Any, mode: str) -> Any:
    """Value of a checked tree at ``z``: an array, a tensor, or (mode "polynomial") a `Polynomial`."""
    match node:
        case ast.Constant(value=value):
            try:
                return float(cast(float, value))
            except OverflowError:
                raise InputError(f"the number {str(value)[:12]}... in the link is too large for a float") from None
        case ast.Name(id=name):
            return z if name == "z" else _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand):
            value = evaluate(operand, z, mode)
            return -value if isinstance(op, ast.USub) else value
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return _call(name, evaluate(argument, z, mode), mode)
        case ast.BinOp(left=left, op=op, right=right):
            return _operate(op, evaluate(left, z, mode), evaluate(right, z, mode))
    raise TypeError(f"unchecked node {ast.dump(node)}")


def _call(name: str, value: Any, mode: str) -> Any:
    if name in HERMITE:
        result = value * 0
        for coefficient in HERMITE[name].coef[::-1]:
            result = result * value + float(coefficient)
        return result
    on_numpy, on_torch = {**SMOOTH, **KINKED}[name]
    if isinstance(value, float):
        with np.errstate(all="ignore"):
            return float(on_numpy(value))
    return on_torch(value) if mode == "torch" else on_numpy(value)


def _operate(op: ast.operator, left: Any, right: Any) -> Any:
    try:
        match op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                if isinstance(right, float) and right == 0:
                    raise ZeroDivisionError
                return left / right
            case _:
                return _power(left, right)
    except ZeroDivisionError:
        raise InputError("the link divides by zero; expected a divisor that is not the constant 0") from None
    except OverflowError:
        raise InputError("a constant in the link is too large for a float; expected numbers below 1.8e308") from None


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(exponent, float) and exponent.is_integer() and abs(exponent) <= MAX_POWER:
        exponent = int(exponent)
    value = base**exponent
    if isinstance(value, complex):
        raise InputError("the link takes a fractional power of a negative number; expected real values")
    return value
