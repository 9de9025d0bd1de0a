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

from iclab.errors import InputError, cut, is_not_zero
from iclab.links.intervals import softplus

_MAX_LENGTH = 500
_MAX_DEPTH = 260  # a sum of 250 terms is as deep
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
SHORTHANDS = {"z2exp": "z**2*exp(-z**2)"}
_CONSTANTS = {"pi": math.pi, "e": math.e}
HERMITE = {
    f"he{k}": Polynomial(hermite_e.herme2poly([0] * k + [1])) / math.sqrt(math.factorial(k)) for k in range(1, 9)
}
FUNCTIONS = (*SMOOTH, *KINKED, *HERMITE)


def parse(text: str) -> ast.expr:
    """The checked syntax tree of an expression in ``z``. The bare name of a function means that function at ``z``.

    Raises:
        InputError: for anything outside the whitelist, naming it.
    """
    if not isinstance(text, str) or not text.strip():
        raise InputError("the link is an empty expression; expected a function of z such as (z**3 - 3*z)/sqrt(6)")
    if len(text) > _MAX_LENGTH:
        raise InputError(f"the link is an expression of {len(text)} characters; expected at most {_MAX_LENGTH}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python warns of literals such as 1if; here they are wrong
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError, Warning):
        raise InputError(
            f"the link {cut(text)} is no expression in z; expected something like (z**3 - 3*z)/sqrt(6)"
        ) from None
    return _checked(tree, text, 0)


def constant(name: str, text: str) -> float:
    """The number that ``text``, an expression without ``z`` such as ``sqrt(2)``, stands for.

    Raises:
        InputError: for anything else, and for a number that is not finite, naming it.
    """
    tree = parse(text)
    if any(isinstance(node, ast.Name) and node.id == "z" for node in ast.walk(tree)):
        raise InputError(f"{name} is {cut(text)}; expected a number such as -0.5 or sqrt(2)")
    value = evaluate(tree, 0.0, "numpy")
    if not math.isfinite(value):
        raise InputError(f"{name} is {cut(text)} = {value}; expected a finite number")
    return float(value)


def _checked(node: ast.expr, text: str, depth: int) -> ast.expr:
    """The tree with bare names of functions filled in; raise `InputError` at the first thing not whitelisted."""
    if depth > _MAX_DEPTH:
        raise InputError(
            f"the link {cut(text)} is nested {_MAX_DEPTH} levels deep; expected fewer: split it into terms"
        )
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            _check_number(node, text)
            return node
        case ast.Name(id=name) if name == "z" or name in _CONSTANTS:
            return node
        case ast.Name(id=name) if name in FUNCTIONS:
            return ast.Call(func=node, args=[ast.Name(id="z", ctx=ast.Load())], keywords=[])
        case ast.Name(id=name) if name in SHORTHANDS:
            return ast.parse(SHORTHANDS[name], mode="eval").body
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
            return ast.UnaryOp(op=op, operand=_checked(operand, text, depth + 1))
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow() as op, right=right):
            return ast.BinOp(left=_checked(left, text, depth + 1), op=op, right=_checked(right, text, depth + 1))
        case ast.Call(func=ast.Name(id=name) as func, args=[argument], keywords=[]) if name in FUNCTIONS:
            return ast.Call(func=func, args=[_checked(argument, text, depth + 1)], keywords=[])
        case ast.BinOp(op=ast.BitXor()):
            raise InputError(f"the link {cut(text)} uses ^; write ** for a power")
    found = ast.get_source_segment(text.strip(), node) or type(node).__name__
    raise InputError(
        f"the link {cut(text)} uses {cut(found)}; expected numbers, z, pi, e, + - * / ** and " + " ".join(FUNCTIONS)
    )


def _check_number(node: ast.Constant, text: str) -> None:
    written = ast.get_source_segment(text.strip(), node) or ""
    try:
        size = float(cast(float, node.value))
    except OverflowError:
        size = math.inf
    if math.isinf(size):
        raise InputError(f"the number {cut(written)} in the link is too large for a float; expected one below 1.8e308")
    if size == 0 and isinstance(node.value, float) and is_not_zero(written):
        raise InputError(
            f"the number {cut(written)} in the link is too small for a float; expected 0 or at least 1e-307 in size"
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
            return float(cast(float, value))
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
    if isinstance(base, Polynomial) and exponent == 0:
        return 1.0  # a number, which any function takes
    value = base**exponent
    if isinstance(value, complex):
        raise InputError("the link takes a fractional power of a negative number; expected real values")
    return value
