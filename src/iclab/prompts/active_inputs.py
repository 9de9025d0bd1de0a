"""Single-index prompts with some of their scalars lowered, as a curriculum asks for it.

In the *active* dimensions ``a <= d`` and ``s <= r``:

- ``intrinsic_dim = s``: directions are uniform on the sphere of the first ``s`` coordinates of the support.
- ``ambient_dim = a``: ``a`` coordinates of the inputs are active, the others are zero, so a model keeps its input size.
  Coordinates become active in one fixed order: those of the (final) support as it lists them, then the others in
  increasing order. So active sets are nested, and labels never depend on a coordinate that is not shown.
- ``noise``: the size of the label noise.

The link stays as it is. Inputs are drawn in all ``d`` dimensions and then zeroed: distributed as inputs drawn in ``a``
dimensions and padded, for every distribution of the inputs, and prompt ``i`` keeps its active coordinates when ``a`` grows.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from iclab.errors import InputError, check_integer
from iclab.prompts.batch import Prompts
from iclab.prompts.distribution import PromptDistribution
from iclab.prompts.single_index import SingleIndex


class ActiveInputs(PromptDistribution):
    """The prompts of another distribution with some coordinates of the inputs set to zero.

    Args:
        inner: the other; its labels must not depend on those coordinates.
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


def adjusted_single_index(prompts: SingleIndex, values: Mapping[str, float]) -> PromptDistribution:
    """``prompts`` with other scalars, as above.

    Raises:
        InputError: for a class of one's own, an unknown name, a value above the distribution's own or below 1, fewer
            active coordinates than the directions need, or ``ambient_dim`` of a rotated support, whose directions have
            parts in every coordinate.
    """
    if type(prompts) is not SingleIndex:
        return PromptDistribution.adjusted(prompts, **values)
    for name in values:
        if name not in prompts.scalars():
            raise InputError(f"a curriculum names {name!r}; expected num_examples, {', '.join(prompts.scalars())}")
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
