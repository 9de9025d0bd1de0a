"""Stateless random streams: what is drawn is a function of (seed, role, index) and of nothing else."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from iclab.errors import InputError, check_integer

_WORDS = 624  # state words of the Mersenne Twister
_OFFSET = 24  # bytes before them in torch's serialised generator state
_PROBE = 0x9E3779B9
_ENCODER = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True)
class Stream:
    """A named family of random generators.

    ``Stream(seed).child("prompts").at(step)`` returns a fresh generator that depends on the seed, the roles and the
    index alone: not on the order of calls, the process, or what else was drawn. Hence resuming, the number of workers
    and the set of learners never change the data.

    The whole 19,968-bit state of torch's Mersenne Twister is filled with SHAKE-256 of the canonical path. (Passing a
    64-bit hash to ``torch.Generator.manual_seed`` is not enough: only its lower 32 bits reach the engine, so streams
    collide after some 65,000 draws.)
    """

    seed: int
    path: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_integer("seed", self.seed, 0, 2**63 - 1))

    def child(self, role: str) -> Stream:
        """Return the stream of one role, such as ``"evaluation"``; roles nest."""
        if not isinstance(role, str) or not role:
            raise InputError(f"the role of a stream is {role!r}; expected a non-empty string")
        return Stream(self.seed, (*self.path, role))

    def at(self, index: int) -> torch.Generator:
        """Make a torch generator (CPU) for draw number ``index >= 0``."""
        index = check_integer("the index of a stream", index, 0)
        state = _template().copy()
        words = np.frombuffer(hashlib.shake_256(self._key(index)).digest(4 * _WORDS), np.uint32)
        state[_OFFSET : _OFFSET + 8 * _WORDS].view(np.uint64)[:] = words
        generator = torch.Generator()
        generator.set_state(torch.from_numpy(state))
        return generator

    def numpy(self, index: int) -> np.random.Generator:
        """Make a NumPy generator for draw number ``index >= 0``, independent of the torch generator of that index."""
        index = check_integer("the index of a stream", index, 0)
        digest = hashlib.shake_256(b"numpy" + self._key(index)).digest(32)
        return np.random.Generator(np.random.PCG64DXSM(int.from_bytes(digest, "little")))

    def _key(self, index: int) -> bytes:
        return _ENCODER.encode([self.seed, *self.path, index]).encode()


def check_stream(stream: object) -> Stream:
    """Return ``stream`` if it is a `Stream`; raise `InputError` otherwise."""
    if not isinstance(stream, Stream):
        raise InputError(f"stream is {stream!r}; expected a Stream, such as Stream(0).child('pretraining')")
    return stream


@cache
def _template() -> np.ndarray:
    """The serialised state of a fresh generator, after checking that the engine's words lie where we write them."""
    state = torch.Generator().manual_seed(_PROBE).get_state().numpy().copy()
    if state.size < _OFFSET + 8 * _WORDS or state[_OFFSET : _OFFSET + 8].view(np.uint64)[0] != _PROBE:
        raise RuntimeError(
            f"torch {torch.__version__} lays out its CPU generator in a way iclab does not know; "
            "install the torch version named in constraints.txt"
        )
    return state
