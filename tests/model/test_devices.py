"""A model computes where its weights are: tried on torch's `meta` device, for no GPU is here."""

import ast
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.model import masks

ROOMS = ("model", "decode", "training")
FACTORIES = {
    "tensor",
    "arange",
    "zeros",
    "ones",
    "empty",
    "full",
    "eye",
    "rand",
    "randn",
    "randint",
}
ON_CPU = {"random_bytes"}
"""Functions that are only called for tensors of a CPU."""


@pytest.mark.parametrize("family", ["encoder-decoder", "encoder", "decoder"])
@pytest.mark.parametrize("shape", [{}, {"positions": "learned", "norm": "pre"}], ids=str)
def test_every_tensor_of_a_training_step_is_on_the_models_device(build, ids, family, shape):
    """A tensor of the CPU beside one of `meta` is an error."""
    model = build(family=family, dropout=0.1, n_token_types=2, **shape).to("meta").train()
    text, memory, mask = ids(3, 6).to("meta"), None, None
    if model.config.reads:
        mask = masks.padding(torch.ones(3, 6, dtype=torch.bool, device="meta"))
        memory = model.encode(text, mask)
    x = model.decode(text, memory, mask) if model.config.writes else memory
    logits = model.logits(x)
    logits.sum().backward()
    assert logits.device.type == "meta"
    assert model.tokens.weight.grad.device.type == "meta"


class Makers(ast.NodeVisitor):
    """The calls that make a tensor and do not say where; parameters and buffers move with their model."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name not in ON_CPU:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func)
        is_maker = called.removeprefix("torch.") in FACTORIES and called.startswith("torch.")
        if is_maker and all(keyword.arg != "device" for keyword in node.keywords):
            self.found.append(ast.unparse(node))
        if called not in ("nn.Parameter", "self.register_buffer"):
            self.generic_visit(node)


def unplaced(source: str) -> list[str]:
    makers = Makers()
    makers.visit(ast.parse(source))
    return makers.found


@pytest.mark.parametrize("room", ROOMS)
def test_whoever_makes_a_tensor_names_its_device(room):
    files = (Path(clearhead.__file__).parent / room).glob("*.py")
    found = {path.name: unplaced(path.read_text(encoding="utf-8")) for path in files}
    assert {name: calls for name, calls in found.items() if calls} == {}


def test_the_walk_finds_a_tensor_without_a_device():
    assert unplaced("def f(x):\n    return x + torch.arange(3)") == ["torch.arange(3)"]
    assert unplaced("torch.arange(3, device=x.device)\nnn.Parameter(torch.empty(3))") == []
