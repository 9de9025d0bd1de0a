"""A law of prompts with some of its scalars lowered, as a curriculum asks for it.

For `SingleIndex` in the *active* dimensions ``a <= d`` and ``s <= r``:

- ``intrinsic_dim = s``: directions are uniform on the sphere of the first ``s`` coordinates of the support.
- ``ambient_dim = a``: ``a`` coordinates of the inputs are active, the others are zero, so a model keeps its input size.
  Coordinates become active in one fixed order: those of the (final) support as it lists them, then the others in
  increasing order. So active sets are nested, and labels never depend on a coordinate that is not shown.
- ``noise``: the size of the label noise.

The link stays as it is. Inputs are drawn in all ``d`` dimensions and then zeroed: the same law as inputs drawn in ``a``
dimensions and padded, for every law of the inputs, and prompt ``i`` keeps its active coordinates when ``a`` grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from iclab.errors import InputError, check_integer
from iclab.prompts import PromptDistribution, Prompts, SingleIndex

_SCALARS = ("ambient_dim", "intrinsic_dim", "noise")


@runtime_checkable
class Adjustable(Protocol):
    """A law of prompts that takes part in a curriculum."""

    def adjusted(self, **values: float) -> PromptDistribution:
        """The same law with these scalars; its prompts keep their dimension. Raises `InputError` for an unknown one."""
        ...


class ActiveInputs(PromptDistribution):
    """The prompts of another law with some coordinates of the inputs set to zero.

    Args:
        inner: the law; its labels must not depend on those coordinates.
        active: the coordinates that stay.
    """

    def __init__(self, inner: PromptDistribution, active: tuple[int, ...]) -> None:
        self.inner, self.active, self.ambient_dim = inner, active, inner.ambient_dim
        self._hidden = torch.tensor(sorted(set(range(inner.ambient_dim)) - set(active)), dtype=torch.int64)

    def draw_chunk(
        self,
        generator: torch.Generator,
        num_examples: int,
        num_queries: int,
        dtype: torch.dtype,
        buffer: Tensor | None = None,
    ) -> Prompts:
        chunk = self.inner.draw_chunk(generator, num_examples, num_queries, dtype, buffer)
        chunk.inputs.index_fill_(2, self._hidden, 0.0)
        return chunk


def adjusted(prompts: PromptDistribution, values: Mapping[str, float]) -> PromptDistribution:
    """``prompts`` with the scalars ``values``: of a `SingleIndex` as above, of another law by its method ``adjusted``.

    Raises:
        InputError: for a law without that method, an unknown name, a value above the law's own or below 1, fewer active
            coordinates than the directions need, or ``ambient_dim`` of a rotated support, whose directions have parts
            in every coordinate.
    """
    if not values:
        return prompts
    if isinstance(prompts, Adjustable):
        return prompts.adjusted(**values)
    if type(prompts) is not SingleIndex:
        raise InputError(
            f"a curriculum of {', '.join(values)} is asked of a {type(prompts).__name__}; give that class a method "
            "adjusted(**values) that returns a law of prompts"
        )
    for name in values:
        if name not in _SCALARS:
            raise InputError(f"a curriculum names {name!r}; expected num_examples, {', '.join(_SCALARS)}")
    inner = prompts
    if "intrinsic_dim" in values or "noise" in values:
        intrinsic = _size("intrinsic_dim", values.get("intrinsic_dim", prompts.intrinsic_dim), prompts.intrinsic_dim)
        inner = SingleIndex(
            prompts.ambient_dim,
            intrinsic,
            prompts.link,
            values.get("noise", prompts.noise),
            prompts.support[:intrinsic],
            None if prompts.rotation is None else prompts.rotation.numpy(),
            prompts.inputs,
        )
    if "ambient_dim" not in values:
        return inner
    ambient = _size("ambient_dim", values["ambient_dim"], prompts.ambient_dim)
    if prompts.rotation is not None:
        raise InputError(
            "a curriculum of ambient_dim is asked of a rotated support, whose labels depend on every coordinate; "
            "use intrinsic_dim or num_examples"
        )
    if ambient < inner.intrinsic_dim:
        raise InputError(
            f"a curriculum reaches ambient_dim = {ambient} with intrinsic_dim = {inner.intrinsic_dim}; expected "
            "as many active coordinates as the directions have: start ambient_dim higher, or intrinsic_dim lower"
        )
    others = sorted(set(range(prompts.ambient_dim)) - set(prompts.support))
    return ActiveInputs(inner, (*prompts.support, *others)[:ambient])


def _size(name: str, value: float, most: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return check_integer(f"{name} of a curriculum", value, 1, most)
