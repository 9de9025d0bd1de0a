"""Several processes that train one model, each on its part of every batch: what ``torchrun`` starts.

Gradients are added by one all-reduce of one flat tensor a dtype, so each process ends with the same bits and takes the
same step. Only process 0 reads and writes files.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn


@dataclass(frozen=True)
class World:
    """The processes of a training.

    Attributes:
        rank: number of this process.
        size: how many there are; with 1, every method leaves its argument as it is.
        device: where tensors that are sent live.
    """

    rank: int
    size: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this process reads and writes files."""
        return self.rank == 0

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor, in place, by its sum over the processes."""
        if self.size == 1:
            return
        for dtype in sorted({tensor.dtype for tensor in tensors}, key=str):
            group = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.flatten() for tensor in group])
            distributed.all_reduce(flat)
            for tensor, part in zip(group, flat.split([tensor.numel() for tensor in group]), strict=True):
                tensor.copy_(part.view_as(tensor))

    def share(self, data: bytes | None) -> bytes | None:
        """The bytes that process 0 gives, in every process."""
        if self.size == 1:
            return data
        length = torch.tensor([-1 if data is None else len(data)], device=self.device)
        distributed.broadcast(length, 0)
        if int(length) < 0:
            return None
        if self.leads and data:
            message = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(self.device)
        else:
            message = torch.empty(int(length), dtype=torch.uint8, device=self.device)
        if int(length):
            distributed.broadcast(message, 0)
        return message.cpu().numpy().tobytes()

    def share_model(self, model: nn.Module) -> None:
        """Give every process the weights and buffers of process 0."""
        if self.size > 1:
            for tensor in model.state_dict().values():
                distributed.broadcast(tensor, 0)


def local_device(device: torch.device) -> torch.device:
    """Under ``torchrun``, ``cuda`` without a number is the GPU of this process's place on its machine."""
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]) if _launched() else torch.cuda.current_device())
    return device


def join(device: torch.device) -> World:
    """The processes of this training: those of an existing process group, those that ``torchrun`` started, or this one.

    A group that is made here (nccl for GPUs, else gloo) stays until the process ends: a second one of the same name
    would meet the addresses of the first in torchrun's store, and a script may train several models.
    """
    if not distributed.is_available() or not (distributed.is_initialized() or _launched()):
        return World(0, 1, device)
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(_leave)
    return World(distributed.get_rank(), distributed.get_world_size(), device)


def _leave() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()


def _launched() -> bool:
    return distributed.is_available() and distributed.is_torchelastic_launched()
