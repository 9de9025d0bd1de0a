"""Which weights an optimiser may pull towards zero."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn


def no_decay_names(model: nn.Module) -> frozenset[str]:
    """Return the names of the parameters that weight decay would damage.

    They are every parameter with fewer than two dimensions (biases, gains of norms, Mamba's ``D`` and the bias of its
    time steps among them), and those that a module lists in an attribute ``no_decay``, as Mamba's mixer does with
    ``A_log``: a decayed ``A_log`` drives all rates of forgetting to one.
    """
    declared = set()
    for prefix, module in model.named_modules():
        names: Iterable[str] = getattr(module, "no_decay", ())  # type: ignore[assignment]
        declared |= {f"{prefix}.{name}" if prefix else name for name in names}
    return frozenset(name for name, p in model.named_parameters() if p.ndim < 2 or name in declared)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Return two groups for a torch optimiser: parameters with ``weight_decay``, and those of `no_decay_names` without.

    Args:
        model: its parameters that require gradients are in the groups.
        weight_decay: of the first group; that of the second is 0.
    """
    spared = no_decay_names(model)
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    return [
        {"params": [p for name, p in trained if name not in spared], "weight_decay": weight_decay},
        {"params": [p for name, p in trained if name in spared], "weight_decay": 0.0},
    ]
