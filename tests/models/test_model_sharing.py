"""Tensors that a model shares are shared after saving and loading: they count once and train as one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from iclab.errors import InputError
from iclab.models import GPT2, InContextModel, LinearAttention, Mamba, initial_values, load_model, save_model
from iclab.models.storage import _checksum
from iclab.prompts import SingleIndex, Stream

D = 3


class Averages(nn.Module):
    """A backbone with a tied buffer and with parameters that are views of one memory."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        memory = torch.randn(width + 2)
        self.gain = nn.Parameter(memory[:width])
        self.offset = nn.Parameter(memory[2:])
        self.strided = nn.Parameter(torch.randn(width, 2)[:, 0])
        self.flat = nn.Parameter(torch.randn(1).expand(width), requires_grad=False)
        self.register_buffer("scale", torch.rand(width))
        self.register_buffer("scale_again", self.scale)

    def forward(self, x: Tensor) -> Tensor:
        counts = torch.arange(1, x.shape[1] + 1)[:, None]
        y = x.cumsum(1) / counts * self.gain + self.offset * self.strided + self.flat
        return y * self.scale + self.scale_again


def _repeated_layer() -> nn.Module:
    model = Mamba(8, 3)
    model.layers[2] = model.layers[0]
    return model


def _tied_across_layers() -> nn.Module:
    model = GPT2(8, 2, heads=2, positions="none")
    model.h[1].mlp.c_fc.weight = model.h[0].mlp.c_fc.weight  # type: ignore[union-attr]
    return model


def _tied_inside_a_layer() -> nn.Module:
    model = LinearAttention(8, 1)
    model.norm_f.weight = model.layers[0].norm.weight  # type: ignore[union-attr]
    return model


def _views_of_one_memory() -> nn.Module:
    model = Mamba(8, 1)
    weight = model.layers[0].mixer.in_proj.weight  # type: ignore[union-attr]
    model.norm_f.weight = nn.Parameter(weight.detach()[::4, 1])  # strides of 32 numbers
    return model


CASES: list[Callable[[], nn.Module]] = [
    _repeated_layer,
    _tied_across_layers,
    _tied_inside_a_layer,
    _views_of_one_memory,
    lambda: Averages(8),
]


def _numbers(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _trained(model: InContextModel) -> dict[str, Tensor]:
    """State after five steps of SGD, by name."""
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.9)
    family = SingleIndex(D, 1, "tanh", 0.1)
    for step in range(5):
        prompts = family.sample(Stream(4).child("pretraining"), 8, 6, 0, start=8 * step)
        optimiser.zero_grad()
        (model.prefixes(prompts) - prompts.example_labels).square().mean().backward()
        optimiser.step()
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("build", CASES)
def test_shared_tensors_come_back_shared_and_train_to_the_same_bits(build, tmp_path: Path) -> None:
    with initial_values(Stream(0)):
        model = InContextModel(D, build())
    save_model(model, tmp_path)
    own = Averages(8) if isinstance(model.backbone, Averages) else None
    loaded = load_model(tmp_path, backbone=own)
    assert _numbers(loaded) == _numbers(model)
    assert [name for name, _ in loaded.named_parameters()] == [name for name, _ in model.named_parameters()]
    assert [name for name, _ in loaded.named_modules()] == [name for name, _ in model.named_modules()]
    assert [(n, p.requires_grad) for n, p in loaded.named_parameters() if p.requires_grad] == [
        (n, p.requires_grad) for n, p in model.named_parameters() if p.requires_grad
    ]
    expected, found = _trained(model), _trained(loaded)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_what_is_written_to_one_view_is_seen_in_the_other(tmp_path: Path) -> None:
    model = InContextModel(D, Averages(8))
    loaded = load_model(save_model(model, tmp_path), backbone=Averages(8))
    backbone = loaded.backbone
    with torch.no_grad():
        backbone.gain[2:] = torch.arange(6.0)
    assert backbone.offset[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert backbone.flat.stride() == (0,)
    assert backbone.scale is backbone.scale_again
    assert backbone.strided.stride() == (1,)  # alone in its memory: its layout is nothing that is shared


def test_a_model_without_the_record_is_tied_as_it_is_built(tmp_path: Path) -> None:
    """Format 2 had no record; a backbone that ties its own weights still gets them tied."""
    model = InContextModel(D, Averages(8))
    description = json.loads((save_model(model, tmp_path) / "model.json").read_text())
    del description["shared"]
    description["format"] = 2
    description["checksum"] = _checksum(description, (tmp_path / "model.safetensors").read_bytes())
    (tmp_path / "model.json").write_text(json.dumps(description))
    loaded = load_model(tmp_path, backbone=Averages(8))
    assert loaded.backbone.scale is loaded.backbone.scale_again
    prompts = SingleIndex(D, 1, "tanh", 0.1).sample(Stream(1), 2, 5, 1)
    assert torch.equal(loaded.predict(prompts), model.predict(prompts))


def test_a_record_of_another_model_is_named(tmp_path: Path) -> None:
    save_model(Mamba(8, 1), tmp_path)
    path = tmp_path / "model.json"
    for wrong in (
        {"modules": [], "tensors": [["norm_f.weight", "layers.7.norm.weight"]], "blocks": []},
        {"modules": [["layers.0", "layers"]], "tensors": []},
        {"modules": [], "tensors": [], "blocks": [{"size": 2, "views": {"norm_f.weight": [0, [1]]}}]},
        {"modules": [], "tensors": [], "blocks": [{"size": 2, "views": {}}]},
        {"modules": [], "tensors": [["layers"]], "blocks": []},
        7,
    ):
        description = {**json.loads(path.read_text()), "shared": wrong}
        description["checksum"] = _checksum(description, (tmp_path / "model.safetensors").read_bytes())
        path.write_text(json.dumps(description))
        with pytest.raises(InputError, match="does not fit its description") as error:
            load_model(tmp_path)
        assert "\n" not in str(error.value)


def test_two_dtypes_in_one_memory_are_refused(tmp_path: Path) -> None:
    backbone = Averages(8)
    backbone.register_buffer("bits", backbone.get_buffer("scale").view(torch.int32))
    model = InContextModel(D, backbone)
    with pytest.raises(InputError, match="different dtypes in the same memory"):
        save_model(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()
