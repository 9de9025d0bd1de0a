"""Tensors that share memory inside a model: what is shared, as plain data, and how to share it again.

Weight tying is the usual case: one parameter under two names, or one module used twice. Parameters and buffers may also
be views of one block of memory. A file of weights holds each name by itself, so without this record a loaded model
would train its tied weights apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from iclab.errors import InputError


class Block(TypedDict):
    """Memory of several tensors: ``size`` numbers, and for each name its offset and strides, in numbers."""

    size: int
    views: dict[str, list[Any]]


class Sharing(TypedDict):
    """What a model shares: modules and tensors that are one object under several names, and blocks of memory."""

    modules: list[list[str]]
    tensors: list[list[str]]
    blocks: list[Block]


def find_sharing(model: nn.Module) -> Sharing:
    """What the parameters, the saved buffers and the modules of ``model`` share.

    Raises:
        InputError: for tensors of different dtypes in the same memory.
    """
    modules = _groups(model.named_modules(remove_duplicate=False))
    saved = model.state_dict(keep_vars=True)
    everything = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    named = {name: tensor for name, tensor in everything if name in saved}
    tensors = _groups(named.items())
    repeated = {name for names in tensors for name in names[1:]}
    distinct = {name: tensor for name, tensor in named.items() if name not in repeated}
    return Sharing(modules=modules, tensors=tensors, blocks=_blocks(distinct))


def share(model: nn.Module, sharing: Mapping[str, Any]) -> None:
    """Make ``model``, with its weights in, share what `find_sharing` found in the one that they come from.

    Raises:
        KeyError, AttributeError, RuntimeError, TypeError, ValueError: where ``sharing`` is of another model.
    """
    for first, *others in sharing["modules"]:
        module = model.get_submodule(first)
        for name in others:
            _set(model, name, module)
    for block in sharing["blocks"]:
        _fill(model, block)
    for first, *others in sharing["tensors"]:
        tensor = _get(model, first)
        for name in others:
            _set(model, name, tensor)


def _groups(named: Iterable[tuple[str, object]]) -> list[list[str]]:
    """Names of the same object, for each object that has several."""
    names: dict[int, list[str]] = {}
    for name, value in named:
        names.setdefault(id(value), []).append(name)
    return [group for group in names.values() if len(group) > 1]


def _blocks(tensors: Mapping[str, Tensor]) -> list[Block]:
    """The tensors whose ranges of memory overlap, or that meet themselves, as expanded ones do."""
    storages: dict[tuple[str, int], list[tuple[int, int, str]]] = {}
    for name, tensor in tensors.items():
        if tensor.numel() > 0 and tensor.layout == torch.strided and tensor.device.type != "meta":
            start = int(tensor.storage_offset()) * tensor.element_size()
            end = start + _extent(tensor) * tensor.element_size()
            key = (str(tensor.device), tensor.untyped_storage().data_ptr())
            storages.setdefault(key, []).append((start, end, name))
    blocks = []
    for ranges in storages.values():
        cluster: list[str] = []
        reached = -1
        for start, end, name in sorted(ranges):
            if start >= reached:
                blocks += _block(cluster, tensors)
                cluster = []
            cluster.append(name)
            reached = max(reached, end)
        blocks += _block(cluster, tensors)
    return blocks


def _extent(tensor: Tensor) -> int:
    """Numbers from the first element in memory to the last."""
    return 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _block(names: list[str], tensors: Mapping[str, Tensor]) -> list[Block]:
    members = [tensors[name] for name in names]
    if len(names) < 2 and all(tensor.numel() <= _extent(tensor) for tensor in members):
        return []
    if len({tensor.dtype for tensor in members}) > 1:
        raise InputError(f"{', '.join(names)} have different dtypes in the same memory; clone all but one of them")
    start = min(int(tensor.storage_offset()) for tensor in members)
    size = max(int(tensor.storage_offset()) - start + _extent(tensor) for tensor in members)
    views = {name: [tensors[name].storage_offset() - start, list(tensors[name].stride())] for name in names}
    return [Block(size=size, views=views)]


@torch.no_grad()
def _fill(model: nn.Module, block: Block) -> None:
    """Replace the tensors of a block by views of one memory that hold their values."""
    tensors = {name: _get(model, name) for name in block["views"]}
    first, *_ = tensors.values()
    memory = first.new_zeros(block["size"])
    numbers = torch.arange(block["size"], device=memory.device)
    for name, tensor in tensors.items():
        offset, strides = block["views"][name]
        memory[numbers.as_strided(tensor.shape, strides, offset)] = tensor
        view = memory.as_strided(tensor.shape, strides, offset)
        kept = nn.Parameter(view, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else view
        _set(model, name, kept)


def _get(model: nn.Module, name: str) -> Tensor:
    owner, _, attribute = name.rpartition(".")
    tensor = getattr(model.get_submodule(owner), attribute)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} is no tensor")
    return tensor


def _set(model: nn.Module, name: str, value: Tensor | nn.Module) -> None:
    owner, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(owner), attribute, value)
