"""Several processes that train one model, each on its part of every batch: what ``torchrun`` starts.

Gradients are added by one all-reduce of one flat tensor a dtype, so each process ends with the same bits and takes the
same step. That needs the same tensors in every process, which is checked before the first step, and the same weights,
which are compared at evaluations and checkpoints. Only process 0 reads and writes files.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import torch
from torch import Tensor, distributed, nn

from iclab.errors import InputError


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

    def add_gradients(self, parameters: Sequence[nn.Parameter], total: Tensor) -> None:
        """Replace ``total`` and each gradient by its sum over the processes.

        A parameter that a process did not use (a dropped layer) counts as a gradient of zero there. One that no process
        used keeps its gradient ``None``, as in a training in one process.
        """
        if self.size == 1:
            return
        absent = [parameter.grad is None for parameter in parameters]
        for parameter, missing in zip(parameters, absent, strict=True):
            if missing:
                parameter.grad = torch.zeros_like(parameter)
        users = torch.tensor([not missing for missing in absent], dtype=torch.int32, device=self.device)
        self.add([total, users, *(parameter.grad for parameter in parameters)])  # type: ignore[list-item]
        if any(absent):
            for parameter, count in zip(parameters, users.tolist(), strict=True):
                if not count:
                    parameter.grad = None

    def share_model(self, model: nn.Module) -> None:
        """Give every process the weights and buffers of process 0."""
        self._share_tensors(model.state_dict())

    @torch.no_grad()
    def _share_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        if self.size > 1:
            for tensor in tensors.values():
                tensor.copy_(self._of_leader(tensor))

    def _of_leader(self, tensor: Tensor) -> Tensor:
        """The tensor of process 0, as a new one; sent as bytes, which works for every dtype and layout."""
        sent = tensor.detach().clone(memory_format=torch.contiguous_format)
        if sent.numel():
            distributed.broadcast(_bytes(sent), 0)
        return sent

    def check_same_training(self, model: nn.Module, settings: Mapping[str, object]) -> None:
        """Raise `InputError`, in every process, unless all have models of one structure and equal ``settings``.

        Called before `share_model`, which tensors of different shapes would hang.
        """
        if self.size == 1:
            return
        trained = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
        tensors = {name: [list(t.shape), str(t.dtype)] for name, t in model.state_dict().items()}
        for what, content in (
            ("models of different tensors", [trained, tensors]),
            ("different settings", dict(settings)),
        ):
            digest = blake2b(json.dumps(content, sort_keys=True, default=str).encode(), digest_size=8).digest()
            own = torch.tensor(list(digest), dtype=torch.uint8, device=self.device)
            found = [torch.empty_like(own) for _ in range(self.size)]
            distributed.all_gather(found, own)
            different = [rank for rank, other in enumerate(found) if not torch.equal(other, found[0])]
            if different:
                raise InputError(
                    f"processes 0 and {different[0]} were given {what}; expected the same call of train in every "
                    "process: let the script depend on its rank nowhere but in the initial weights"
                )

    @torch.no_grad()
    def check_same_weights(self, model: nn.Module, step: int) -> None:
        """Compare the weights with those of process 0, bit by bit, and take over its buffers.

        Buffers may differ, since running statistics see each process's own prompts; a training has those of process 0.

        Raises:
            InputError: in every process, where a weight differs, with its name and process.
        """
        if self.size == 1:
            return
        differs = torch.full((len(list(model.parameters())),), -1, dtype=torch.int32, device=self.device)
        for number, parameter in enumerate(model.parameters()):
            if not torch.equal(_bytes(self._of_leader(parameter)), _bytes(parameter)):  # as bytes, NaN equals itself
                differs[number] = self.rank
        distributed.all_reduce(differs, distributed.ReduceOp.MAX)
        for (name, _), rank in zip(model.named_parameters(), differs.tolist(), strict=True):
            if rank >= 0:
                raise InputError(
                    f"after step {step} the parameter {name} of process {rank} is no longer that of process 0; "
                    "expected equal weights in all processes: let nothing but train change them, use machines of one "
                    "kind, and go on from the last checkpoint before"
                )
        own = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        self._share_tensors({name: t for name, t in model.state_dict().items() if name not in own})


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().flatten().view(torch.uint8)


def local_device(device: torch.device) -> torch.device:
    """Under ``torchrun``, ``cuda`` without a number is the GPU of this process on its machine."""
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
