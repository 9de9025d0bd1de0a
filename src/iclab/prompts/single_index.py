"""Gaussian single-index prompts: ``y = g(<beta, x>) + zeta`` with ``beta`` in a fixed low-dimensional subspace.

Reference: arXiv 2510.12026, section on the task distribution. Where the paper leaves a value open (the noise level, the
index set) it is an argument here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from iclab.errors import InputError, check_integer
from iclab.links import Link, make_link
from iclab.prompts.active_inputs import ActiveInputs
from iclab.prompts.arguments import one_value
from iclab.prompts.batch import Prompts
from iclab.prompts.distribution import PromptDistribution
from iclab.prompts.drawn import CHUNK
from iclab.prompts.inputs import InputDistribution
from iclab.prompts.stream import Stream
from iclab.prompts.values import check_finite, check_held, check_real, is_finite

_MAX_DIM = 100_000


class SingleIndex(PromptDistribution):
    """Prompts with ``y = g(<beta, x>) + zeta``.

    Args:
        ambient_dim: d, dimension of the inputs.
        intrinsic_dim: r <= d; ``beta`` is uniform on the unit sphere of r coordinates, fresh for each prompt.
        link: ``g``: anything that `iclab.links.make_link` reads. Taken as it is; standardise it there if wanted.
        noise: ``tau >= 0``; the label noise is ``+tau`` or ``-tau`` with probability 1/2 each.
        support: the r coordinates, ``None`` for a random subset drawn from ``seed``, shared by all prompts.
        rotation: ``(d, d)`` orthogonal matrix ``R`` applied to every ``beta`` (a subspace that is not axis-aligned),
            ``"random"`` for one drawn from ``seed``, or ``None``.
        inputs: an `InputDistribution`, or the name of one.
        seed: of the support and the rotation, when they are random.

    Raises:
        InputError: for ``r > d``, sizes below 1, a negative noise, a support that is no set of r coordinates, a matrix
            that is not orthogonal, or a link that cannot be used.
    """

    chunks_at_once = 8

    def __init__(
        self,
        ambient_dim: int,
        intrinsic_dim: int,
        link: Link | str | Sequence[float] | Callable = "he3",
        noise: float = 0.0,
        support: Sequence[int] | None = None,
        rotation: Sequence[Sequence[float]] | np.ndarray | str | None = None,
        inputs: InputDistribution | str = "gaussian",
        *,
        seed: int = 0,
    ) -> None:
        self.ambient_dim = check_integer("ambient_dim", ambient_dim, 1, _MAX_DIM)
        self.intrinsic_dim = check_integer("intrinsic_dim", intrinsic_dim, 1)
        if self.intrinsic_dim > self.ambient_dim:
            raise InputError(
                f"intrinsic_dim is {intrinsic_dim} and ambient_dim {ambient_dim}; expected intrinsic_dim <= ambient_dim"
            )
        self.link = make_link(link)
        self.noise = check_real("noise", one_value("noise", noise), 0)
        self._sizes = {"noise": self.noise, "the size of the link": math.hypot(self.link.mean, self.link.variance**0.5)}
        check_held(self._sizes, torch.float64)
        self.inputs = inputs if isinstance(inputs, InputDistribution) else InputDistribution(inputs)
        if self.inputs.covariance is not None and len(self.inputs.covariance) != self.ambient_dim:
            raise InputError(
                f"the covariance is for dimension {len(self.inputs.covariance)}; expected {self.ambient_dim}"
            )
        streams = Stream(seed).child("single-index")
        if support is None:
            order = torch.randperm(self.ambient_dim, generator=streams.child("support").at(0))
            self.support = tuple(sorted(order[: self.intrinsic_dim].tolist()))
        else:
            self.support = _check_support(support, self.ambient_dim, self.intrinsic_dim)
        self.rotation = _rotation(rotation, self.ambient_dim, streams.child("rotation"))
        # A random one is known by its seed: its last bits depend on the processor.
        self._rotation_seed = streams.seed if isinstance(rotation, str) else None
        self.label_variance = self.link.variance
        self.label_support = self.support if self.rotation is None else None

    def identity(self) -> Mapping[str, object]:
        return {
            "ambient_dim": self.ambient_dim,
            "intrinsic_dim": self.intrinsic_dim,
            "link": self.link,
            "noise": self.noise,
            "support": self.support,
            "rotation": self.rotation if self._rotation_seed is None else f"random, of seed {self._rotation_seed}",
            "inputs": self.inputs,
        }

    def scalars(self) -> Mapping[str, float]:
        return {"ambient_dim": self.ambient_dim, "intrinsic_dim": self.intrinsic_dim, "noise": self.noise}

    def adjusted(self, **values: float) -> PromptDistribution:
        """Return the same prompts with smaller scalars, in the *active* dimensions ``a <= d`` and ``s <= r``.

        The link stays as it is. Inputs are drawn in all ``d`` dimensions and then zeroed: distributed as inputs drawn
        in ``a`` dimensions and padded, and prompt ``i`` keeps its active coordinates when ``a`` grows.

        Args:
            values: of these scalars, by name.

                - ``intrinsic_dim = s``: directions are uniform on the sphere of the first ``s`` coordinates of the
                  support.
                - ``ambient_dim = a``: ``a`` coordinates of the inputs are active, the others are zero, so a model keeps
                  its input size. Coordinates become active in one fixed order: those of the (final) support as it lists
                  them, then the others in increasing order. So active sets are nested, and labels depend on active
                  coordinates alone.
                - ``noise``: the size of the label noise.

        Raises:
            InputError: for a class of one's own without this method, an unknown name, a value above the present one or
                below 1, fewer active coordinates than the directions need, or ``ambient_dim`` of a rotated support,
                whose directions have parts in every coordinate.
        """
        if type(self) is not SingleIndex:  # a class of one's own may draw anything
            return super().adjusted(**values)
        for name in values:
            if name not in self.scalars():
                raise InputError(f"a curriculum names {name!r}; expected num_examples, {', '.join(self.scalars())}")
        intrinsic = _size("intrinsic_dim", values.get("intrinsic_dim", self.intrinsic_dim), self.intrinsic_dim)
        inner = SingleIndex(
            self.ambient_dim,
            intrinsic,
            self.link,
            values.get("noise", self.noise),
            self.support[:intrinsic],
            None if self.rotation is None else self.rotation.numpy(),
            self.inputs,
        )
        if "ambient_dim" not in values:
            return inner
        ambient = _size("ambient_dim", values["ambient_dim"], self.ambient_dim)
        if self.rotation is not None:
            raise InputError(
                "a curriculum of ambient_dim is asked of a rotated support, whose labels depend on every coordinate; "
                "use intrinsic_dim or num_examples"
            )
        if ambient < intrinsic:
            raise InputError(
                f"a curriculum reaches ambient_dim = {ambient} with intrinsic_dim = {intrinsic}; expected as many "
                "active coordinates as the directions have: start ambient_dim higher, or intrinsic_dim lower"
            )
        others = sorted(set(range(self.ambient_dim)) - set(self.support))
        return ActiveInputs(inner, (*self.support, *others)[:ambient])

    def draw_chunks(
        self,
        generators: Sequence[torch.Generator],
        num_examples: int,
        num_queries: int,
        dtype: torch.dtype,
        buffer: Tensor | None = None,
    ) -> Prompts:
        check_held(self._sizes, dtype)
        count, length = len(generators) * CHUNK, num_examples + num_queries
        latent = torch.empty(count, self.intrinsic_dim, dtype=torch.float64)
        signs = torch.empty(count, length, dtype=torch.int8)
        inputs = torch.empty(count, length, self.ambient_dim, dtype=dtype) if buffer is None else buffer
        for number, generator in enumerate(generators):
            chunk = slice(number * CHUNK, (number + 1) * CHUNK)
            # Directions and noise come first, so prompt i has the same task at every length.
            torch.randn(CHUNK, self.intrinsic_dim, generator=generator, dtype=torch.float64, out=latent[chunk])
            if self.noise:
                torch.randint(2, (CHUNK, length), generator=generator, dtype=torch.int8, out=signs[chunk])
            self.inputs.fill(inputs[chunk], generator)
        latent = (latent / latent.norm(dim=1, keepdim=True)).to(dtype)
        support = list(self.support)
        if self.rotation is None:
            directions = torch.zeros(count, self.ambient_dim, dtype=dtype)
            directions[:, support] = latent
            # Coordinate by coordinate: r passes over one column each, in a fixed order of addition.
            index = inputs[:, :, support[0]] * latent[:, :1]
            for position, coordinate in enumerate(support[1:], start=1):
                index.addcmul_(inputs[:, :, coordinate], latent[:, position : position + 1])
        else:
            rotation = self.rotation[:, support].T.to(dtype)
            directions = torch.cat([part @ rotation for part in latent.split(CHUNK)])  # bits depend on the rows at once
            index = (inputs * directions[:, None, :]).sum(-1)
        targets = self._targets(index.contiguous())
        labels = signs.to(dtype).mul_(2).sub_(1).mul_(self.noise).add_(targets) if self.noise else targets
        for part in () if is_finite(labels) else labels.split(CHUNK):
            check_finite(f"a label of the link {self.link.name!r} in {dtype}", part, "scale the link, or use float64")
        return Prompts(inputs, labels, num_examples, targets, directions, trusted=True)

    def _targets(self, index: Tensor) -> Tensor:
        """The link, chunk by chunk: a function may round by where a number lies in its array, or reuse its result."""
        if self.link.sums_and_products:
            return self.link(index)
        targets = torch.empty_like(index)
        for part, out in zip(index.split(CHUNK), targets.split(CHUNK), strict=True):
            out.copy_(self.link(part))
        return targets

    def index(self, prompts: Prompts) -> Tensor:
        """Compute the projections ``<beta, x>`` of every input, ``(B, N+Q)``.

        Raises:
            InputError: for prompts without directions.
        """
        if prompts.directions is None:
            raise InputError("these prompts carry no directions; expected prompts drawn from a SingleIndex")
        return (prompts.inputs * prompts.directions[:, None, :]).sum(-1)


def _check_support(support: Sequence[int], ambient_dim: int, intrinsic_dim: int) -> tuple[int, ...]:
    if not isinstance(support, Iterable) or isinstance(support, str):
        raise InputError(f"support is {support!r}; expected a list of {intrinsic_dim} distinct coordinates")
    indices = tuple(check_integer("an index of support", i, 0, ambient_dim - 1) for i in support)
    if len(set(indices)) != intrinsic_dim or len(indices) != intrinsic_dim:
        raise InputError(f"support is {list(support)}; expected {intrinsic_dim} distinct coordinates")
    return indices


def _rotation(rotation: Sequence[Sequence[float]] | np.ndarray | str | None, dim: int, stream: Stream) -> Tensor | None:
    if rotation is None:
        return None
    if isinstance(rotation, str):
        if rotation != "random":
            raise InputError(f"rotation is {rotation!r}; expected 'random', a matrix or nothing")
        gaussian = torch.randn(dim, dim, generator=stream.at(0), dtype=torch.float64)
        orthogonal, triangular = torch.linalg.qr(gaussian)
        return orthogonal * torch.sign(torch.diagonal(triangular))
    try:
        if np.iscomplexobj(rotation):
            raise TypeError
        matrix = torch.as_tensor(np.array(rotation, dtype=float))
    except (TypeError, ValueError):
        raise InputError("rotation is no rectangular array of real numbers; expected (d, d)") from None
    if tuple(matrix.shape) != (dim, dim):
        raise InputError(f"rotation has shape {tuple(matrix.shape)}; expected {(dim, dim)}")
    if not torch.allclose(matrix @ matrix.T, torch.eye(dim, dtype=torch.float64), atol=1e-8):
        raise InputError("rotation is not orthogonal; expected R R' = I")
    return matrix


def _size(name: str, value: float, most: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return check_integer(f"{name} of a curriculum", value, 1, most)
