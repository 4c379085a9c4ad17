"""A model as ONNX graphs, written from the mathematics: no exporter, every node is one of ours.

An encoder is one graph. A model that writes has a decoder with a KV cache: it takes the keys and
values of the tokens before, and answers with those and the new ones. Where there is an encoder as
well, its graph also answers with the keys and values that the decoder's cross-attention asks.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from clearhead.config import ModelConfig

OPSET, IR_VERSION = 20, 10
NOWHERE = -1e30
"""A score that leaves no attention."""
ALL = slice(None)
Weights = dict[str, Tensor]
Shape = Sequence[str | int]
KeysAndValues = list[str]
"""The names of the two."""


class Graph:
    """Nodes in the order of computation; a weight that is used twice is kept once."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self.config, self.weights = config, weights
        self.d_head = config.d_model // config.n_heads
        self.nodes: list[Any] = []
        self.kept: dict[str, Any] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node, by the name of what it makes."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        array = np.array(value, dtype)
        name = f"{array.dtype}{array.tolist()}".replace(" ", "")
        self.kept.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def weight(self, name: str, rows: slice = ALL) -> str:
        """A weight, or some rows of it."""
        module, _, kind = name.rpartition(".")
        part = name if rows == ALL else f"{module}.{rows.start}:{rows.stop}.{kind}"
        if part not in self.kept:
            array = self.weights[name][rows].detach().float().cpu().numpy()
            self.kept[part] = numpy_helper.from_array(np.ascontiguousarray(array), part)
        return part

    def takes(self, name: str, dtype: Any, shape: Shape) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def gives(self, value: str, name: str, shape: Shape) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))

    def takes_keys_and_values(self, name: str, length: str) -> list[KeysAndValues]:
        """Inputs for all layers of the decoder, by heads."""
        shape: Shape = ["batch", self.config.n_heads, length, self.d_head]
        return [
            [self.takes(f"{name}_{kind}_{index}", TensorProto.FLOAT, shape) for kind in "kv"]
            for index in range(self.config.n_decoder_layers)
        ]

    def gives_keys_and_values(self, pair: KeysAndValues, name: str, index: int, n: str) -> None:
        for kind, value in zip("kv", pair, strict=True):
            shape: Shape = ["batch", self.config.n_heads, n, self.d_head]
            self.gives(value, f"{name}_{kind}_{index}", shape)

    def model(self, name: str) -> Any:
        graph = helper.make_graph(
            self.nodes, name, self.inputs, self.outputs, list(self.kept.values())
        )
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="clearhead")
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model, full_check=True)
        return model

    # Layers

    def project(self, x: str, weight: str, bias: str, rows: slice = ALL) -> str:
        """x Wᵀ + b, of all rows of W or of some; b may be missing."""
        y = self.op("MatMul", x, self.op("Transpose", self.weight(weight, rows), perm=[1, 0]))
        return self.op("Add", y, self.weight(bias, rows)) if bias in self.weights else y

    def linear(self, x: str, name: str, rows: slice = ALL) -> str:
        return self.project(x, f"{name}.weight", f"{name}.bias", rows)

    def norm(self, x: str, name: str) -> str:
        names = [each for each in (f"{name}.weight", f"{name}.bias") if each in self.weights]
        weights = map(self.weight, names)
        return self.op("LayerNormalization", x, *weights, axis=-1, epsilon=self.config.norm_eps)

    def activation(self, x: str) -> str:
        name = self.config.activation
        if name == "silu":
            return self.op("Mul", x, self.op("Sigmoid", x))
        if name == "relu":
            return self.op("Relu", x)
        return self.op("Gelu", x, approximate="tanh" if name == "gelu_tanh" else "none")

    def by_heads(self, x: str, name: str, places: Sequence[int]) -> list[str]:
        """Queries, keys and values (0, 1, 2) by heads."""
        d_model, found = self.config.d_model, []
        for place in places:
            y = self.linear(x, f"{name}.qkv", slice(place * d_model, (place + 1) * d_model))
            shape = self.constant([0, 0, self.config.n_heads, self.d_head])
            found.append(self.op("Transpose", self.op("Reshape", y, shape), perm=[0, 2, 1, 3]))
        return found

    def attend(self, q: str, k: str, v: str, *, mask: str) -> str:
        """softmax(q kᵀ / √d_k) v, and the heads side by side again."""
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        scaled = self.op("Mul", scores, self.constant(1 / math.sqrt(self.d_head), np.float32))
        masked = self.op("Where", mask, scaled, self.constant(NOWHERE, np.float32))
        z = self.op("MatMul", self.op("Softmax", masked, axis=-1), v)
        merged = self.op("Transpose", z, perm=[0, 2, 1, 3])
        return self.op("Reshape", merged, self.constant([0, 0, self.config.d_model]))

    def before(self, x: str, norm: str) -> str:
        """What a sublayer reads."""
        return self.norm(x, norm) if self.config.norm == "pre" else x

    def after(self, x: str, y: str, norm: str) -> str:
        """What a sublayer has made, added to what there was."""
        total = self.op("Add", x, y)
        return total if self.config.norm == "pre" else self.norm(total, norm)

    def layer(
        self,
        x: str,
        name: str,
        mask: str,
        *,
        past: KeysAndValues | None = None,
        memory: KeysAndValues | None = None,
        memory_mask: str = "",
    ) -> tuple[str, KeysAndValues]:
        """A layer of a stack, and the keys and values that it looks at, those of the past first."""
        h = self.before(x, f"{name}.norm_self")
        q, *pair = self.by_heads(h, f"{name}.self_attention", (0, 1, 2))
        for place, old in enumerate(past or ()):
            pair[place] = self.op("Concat", old, pair[place], axis=2)
        z = self.attend(q, *pair, mask=mask)
        x = self.after(x, self.linear(z, f"{name}.self_attention.out"), f"{name}.norm_self")
        if memory:
            h = self.before(x, f"{name}.norm_cross")
            (q,) = self.by_heads(h, f"{name}.cross_attention", (0,))
            z = self.attend(q, *memory, mask=memory_mask)
            x = self.after(x, self.linear(z, f"{name}.cross_attention.out"), f"{name}.norm_cross")
        h = self.before(x, f"{name}.norm_ff")
        hidden = self.activation(self.linear(h, f"{name}.feed_forward.inner"))
        y = self.linear(hidden, f"{name}.feed_forward.out")
        return self.after(x, y, f"{name}.norm_ff"), pair

    def embed(self, ids: str, tokens: str, stack: str, positions: str) -> str:
        x = self.op("Gather", self.weight(tokens), ids)
        if self.config.scale_embeddings:
            x = self.op("Mul", x, self.constant(math.sqrt(self.config.d_model), np.float32))
        table = self.weight(f"{stack}.positions.table")
        x = self.op("Add", x, self.op("Gather", table, positions))
        if self.config.n_token_types:  # every token is of the first type
            types = self.weight(f"{stack}.types.weight")
            x = self.op("Add", x, self.op("Gather", types, self.constant(0)))
        return self.norm(x, f"{stack}.norm_embedding") if self.config.embedding_norm else x

    def size(self, x: str, axis: int) -> str:
        return self.op("Gather", self.op("Shape", x), self.constant(axis), axis=0)

    def count(self, start: str, stop: str) -> str:
        return self.op("Range", start, stop, self.constant(1))

    def padding_mask(self, real: str) -> str:
        """Which tokens of the source may be looked at: (B, 1, 1, S)."""
        return self.op("Unsqueeze", real, self.constant([1, 2]))

    def pooled(self, x: str, real: str) -> str:
        """One vector for the whole text: the first, or the mean of those that are no padding."""
        if self.config.pooling == "first":
            return self.op("Gather", x, self.constant(0), axis=1)
        ones = self.op("Unsqueeze", self.op("Cast", real, to=TensorProto.FLOAT), self.constant([2]))
        total = self.op("ReduceSum", self.op("Mul", x, ones), self.constant([1]), keepdims=0)
        return self.op("Div", total, self.op("ReduceSum", ones, self.constant([1]), keepdims=0))

    def logits(self, x: str) -> str:
        """A score for every token."""
        if "head.dense.weight" in self.weights:
            x = self.norm(self.activation(self.linear(x, "head.dense")), "head.norm")
        name = "head.tokens.weight" if "head.tokens.weight" in self.weights else "tokens.weight"
        return self.project(x, name, "head.bias")


def encoder_graph(config: ModelConfig, weights: Weights) -> Any:
    """ids → vectors, or what is made of them: classes, scores of tokens, a vector of the text."""
    graph = Graph(config, weights)
    source = graph.takes("source", TensorProto.INT64, ["batch", "source"])
    real = graph.takes("mask", TensorProto.BOOL, ["batch", "source"])
    mask = graph.padding_mask(real)
    positions = graph.count(graph.constant(0), graph.size(source, 1))
    tokens = "source_tokens.weight" if "source_tokens.weight" in weights else "tokens.weight"
    x = graph.embed(source, tokens, "encoder", positions)
    for index in range(config.n_encoder_layers):
        x, _ = graph.layer(x, f"encoder.layers.{index}", mask)
    x = graph.before(x, "encoder.norm")
    if config.writes:
        for index in range(config.n_decoder_layers):
            pair = graph.by_heads(x, f"decoder.layers.{index}.cross_attention", (1, 2))
            graph.gives_keys_and_values(pair, "cross", index, "source")
    elif config.n_classes:
        y = graph.linear(graph.pooled(x, real), "classifier.dense")
        y = graph.op("Tanh" if config.pooled == "tanh" else "Relu", y)
        graph.gives(graph.linear(y, "classifier.out"), "classes", ["batch", config.n_classes])
    elif config.vectors:
        y = graph.pooled(x, real)
        if config.unit_vectors:
            y = graph.op("LpNormalization", y, axis=-1, p=2)
        graph.gives(y, "vectors", ["batch", config.d_model])
    else:
        graph.gives(graph.logits(x), "logits", ["batch", "source", config.vocab_size])
    return graph.model("encoder")


def decoder_graph(config: ModelConfig, weights: Weights) -> Any:
    """New tokens and the cache of those before → scores of the next, and the cache with them."""
    graph = Graph(config, weights)
    target = graph.takes("target", TensorProto.INT64, ["batch", "new"])
    past = graph.takes_keys_and_values("past", "past")
    memory: Sequence[KeysAndValues | None] = [None] * config.n_decoder_layers
    memory_mask = ""
    if config.reads:
        real = graph.takes("mask", TensorProto.BOOL, ["batch", "source"])
        memory_mask = graph.padding_mask(real)
        memory = graph.takes_keys_and_values("cross", "source")
    n_past = graph.size(past[0][0], 2)
    n_all = graph.op("Add", n_past, graph.size(target, 1))
    positions = graph.count(n_past, n_all)
    # Row t may look at everything up to and including itself.
    rows = graph.op("Unsqueeze", positions, graph.constant([1]))
    mask = graph.op("LessOrEqual", graph.count(graph.constant(0), n_all), rows)
    x = graph.embed(target, "tokens.weight", "decoder", positions)
    for index in range(config.n_decoder_layers):
        name = f"decoder.layers.{index}"
        x, pair = graph.layer(
            x, name, mask, past=past[index], memory=memory[index], memory_mask=memory_mask
        )
        graph.gives_keys_and_values(pair, "present", index, "all")
    x = graph.before(x, "decoder.norm")
    graph.gives(graph.logits(x), "logits", ["batch", "new", config.vocab_size])
    return graph.model("decoder")
