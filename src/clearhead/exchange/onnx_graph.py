"""A model as ONNX graphs, written from the mathematics: no exporter, every node is one of ours.

An encoder is one graph. A model that writes has a decoder with a cache: it takes the keys and values
of the tokens before, and answers with those and the new ones. Where there is an encoder as well, its
graph also answers with the keys and values that the decoder's cross-attention asks.
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
Weights = dict[str, Tensor]


class Graph:
    """Nodes in the order of computation; a weight that is used twice is kept once."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self.config, self.weights = config, weights
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

    def weight(self, name: str) -> str:
        if name not in self.kept:
            array = np.ascontiguousarray(self.weights[name].detach().float().cpu().numpy())
            self.kept[name] = numpy_helper.from_array(array, name)
        return name

    def takes(self, name: str, dtype: Any, shape: Sequence[str | int]) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def gives(self, value: str, name: str, shape: Sequence[str | int]) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))

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

    def linear(self, x: str, name: str, rows: slice = slice(None)) -> str:
        """x Wᵀ + b, of all rows of W or of some."""
        part = f"{name}.{rows.start}:{rows.stop}" if rows != slice(None) else name
        for kind in ("weight", "bias"):
            if f"{name}.{kind}" in self.weights:
                self.weights.setdefault(f"{part}.{kind}", self.weights[f"{name}.{kind}"][rows])
        y = self.op("MatMul", x, self.op("Transpose", self.weight(f"{part}.weight"), perm=[1, 0]))
        has_bias = f"{part}.bias" in self.weights
        return self.op("Add", y, self.weight(f"{part}.bias")) if has_bias else y

    def norm(self, x: str, name: str) -> str:
        inputs = [x, self.weight(f"{name}.weight")]
        if f"{name}.bias" in self.weights:
            inputs.append(self.weight(f"{name}.bias"))
        return self.op("LayerNormalization", *inputs, axis=-1, epsilon=self.config.norm_eps)

    def activation(self, x: str, name: str) -> str:
        if name == "silu":
            return self.op("Mul", x, self.op("Sigmoid", x))
        if name == "relu":
            return self.op("Relu", x)
        return self.op("Gelu", x, approximate="tanh" if name == "gelu_tanh" else "none")

    def split_heads(self, x: str) -> str:
        n_heads = self.config.n_heads
        shape = self.constant([0, 0, n_heads, self.config.d_model // n_heads])
        return self.op("Transpose", self.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def attend(self, q: str, k: str, v: str, *, mask: str) -> str:
        """softmax(q kᵀ / √d_k) v, and the heads side by side again."""
        scale = 1 / math.sqrt(self.config.d_model // self.config.n_heads)
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        scaled = self.op("Mul", scores, self.constant(scale, np.float32))
        masked = self.op("Where", mask, scaled, self.constant(NOWHERE, np.float32))
        z = self.op("MatMul", self.op("Softmax", masked, axis=-1), v)
        merged = self.op("Transpose", z, perm=[0, 2, 1, 3])
        return self.op("Reshape", merged, self.constant([0, 0, self.config.d_model]))

    def add_norm(self, x: str, norm: str, sublayer: Any) -> str:
        if self.config.norm == "pre":
            return self.op("Add", x, sublayer(self.norm(x, norm)))
        return self.norm(self.op("Add", x, sublayer(x)), norm)

    def thirds(self, x: str, name: str, places: Sequence[int]) -> list[str]:
        """Queries, keys and values (0, 1, 2) by heads."""
        d_model = self.config.d_model
        rows = [slice(place * d_model, (place + 1) * d_model) for place in places]
        return [self.split_heads(self.linear(x, f"{name}.qkv", each)) for each in rows]

    def feed_forward(self, x: str, name: str) -> str:
        hidden = self.activation(self.linear(x, f"{name}.inner"), self.config.activation)
        return self.linear(hidden, f"{name}.out")

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

    def logits(self, x: str) -> str:
        """A score for every token."""
        if "head.dense.weight" in self.weights:
            x = self.activation(self.linear(x, "head.dense"), self.config.activation)
            x = self.norm(x, "head.norm")
        name = "head.tokens.weight" if "head.tokens.weight" in self.weights else "tokens.weight"
        y = self.op("MatMul", x, self.op("Transpose", self.weight(name), perm=[1, 0]))
        return self.op("Add", y, self.weight("head.bias")) if "head.bias" in self.weights else y


def encoder_graph(config: ModelConfig, weights: Weights) -> Any:
    """ids → vectors, or what is made of them: classes, scores of tokens, a vector of the text."""
    graph = Graph(config, weights)
    source = graph.takes("source", TensorProto.INT64, ["batch", "source"])
    real = graph.takes("mask", TensorProto.BOOL, ["batch", "source"])
    mask = graph.op("Unsqueeze", real, graph.constant([1, 2]))
    positions = graph.count(graph.constant(0), graph.size(source, 1))
    tokens = "source_tokens.weight" if "source_tokens.weight" in weights else "tokens.weight"
    x = graph.embed(source, tokens, "encoder", positions)
    for index in range(config.n_encoder_layers):
        name = f"encoder.layers.{index}"

        def attention(h: str, name: str = name) -> str:
            z = graph.attend(*graph.thirds(h, f"{name}.self_attention", (0, 1, 2)), mask=mask)
            return graph.linear(z, f"{name}.self_attention.out")

        x = graph.add_norm(x, f"{name}.norm_self", attention)
        x = graph.add_norm(
            x, f"{name}.norm_ff", lambda h, n=name: graph.feed_forward(h, f"{n}.feed_forward")
        )
    x = graph.norm(x, "encoder.norm") if config.norm == "pre" else x
    if config.writes:
        heads = heads_of(config, "source")
        for index in range(config.n_decoder_layers):
            name = f"decoder.layers.{index}.cross_attention"
            for kind, value in zip("kv", graph.thirds(x, name, (1, 2)), strict=True):
                graph.gives(value, f"cross_{kind}_{index}", heads)
    elif config.n_classes:
        y = graph.linear(pooled(graph, x, real), "classifier.dense")
        y = graph.op("Tanh", y) if config.pooled == "tanh" else graph.op("Relu", y)
        graph.gives(graph.linear(y, "classifier.out"), "classes", ["batch", config.n_classes])
    elif config.vectors:
        y = pooled(graph, x, real)
        if config.unit_vectors:
            y = graph.op("LpNormalization", y, axis=-1, p=2)
        graph.gives(y, "vectors", ["batch", config.d_model])
    else:
        graph.gives(graph.logits(x), "logits", ["batch", "source", config.vocab_size])
    return graph.model("encoder")


def heads_of(config: ModelConfig, length: str) -> list[str | int]:
    """The shape of keys or values by heads."""
    return ["batch", config.n_heads, length, config.d_model // config.n_heads]


def pooled(graph: Graph, x: str, real: str) -> str:
    """One vector for the whole text: the first, or the mean of those that are no padding."""
    if graph.config.pooling == "first":
        return graph.op("Gather", x, graph.constant(0), axis=1)
    ones = graph.op("Unsqueeze", graph.op("Cast", real, to=TensorProto.FLOAT), graph.constant([2]))
    total = graph.op("ReduceSum", graph.op("Mul", x, ones), graph.constant([1]), keepdims=0)
    return graph.op("Div", total, graph.op("ReduceSum", ones, graph.constant([1]), keepdims=0))


def decoder_graph(config: ModelConfig, weights: Weights) -> Any:
    """New tokens and the cache of those before → scores of the next, and the cache with them."""
    graph = Graph(config, weights)
    target = graph.takes("target", TensorProto.INT64, ["batch", "new"])
    past = [
        [
            graph.takes(f"past_{kind}_{i}", TensorProto.FLOAT, heads_of(config, "past"))
            for kind in "kv"
        ]
        for i in range(config.n_decoder_layers)
    ]
    cross: list[list[str]] = []
    cross_mask = ""
    if config.reads:
        heads = heads_of(config, "source")
        real = graph.takes("mask", TensorProto.BOOL, ["batch", "source"])
        cross_mask = graph.op("Unsqueeze", real, graph.constant([1, 2]))
        cross = [
            [graph.takes(f"cross_{kind}_{i}", TensorProto.FLOAT, heads) for kind in "kv"]
            for i in range(config.n_decoder_layers)
        ]
    n_past = graph.size(past[0][0], 2)
    n_all = graph.op("Add", n_past, graph.size(target, 1))
    positions = graph.count(n_past, n_all)
    # Row t may look at everything up to and including itself.
    rows = graph.op("Unsqueeze", positions, graph.constant([1]))
    mask = graph.op("LessOrEqual", graph.count(graph.constant(0), n_all), rows)
    x = graph.embed(target, "tokens.weight", "decoder", positions)
    for index in range(config.n_decoder_layers):
        name = f"decoder.layers.{index}"
        present: list[str] = []

        def itself(h: str, name: str = name, index: int = index, new: list[str] = present) -> str:
            q, *others = graph.thirds(h, f"{name}.self_attention", (0, 1, 2))
            new += [
                graph.op("Concat", before, now, axis=2)
                for before, now in zip(past[index], others, strict=True)
            ]
            z = graph.attend(q, *new, mask=mask)
            return graph.linear(z, f"{name}.self_attention.out")

        def memory(h: str, name: str = name, index: int = index) -> str:
            (q,) = graph.thirds(h, f"{name}.cross_attention", (0,))
            z = graph.attend(q, *cross[index], mask=cross_mask)
            return graph.linear(z, f"{name}.cross_attention.out")

        x = graph.add_norm(x, f"{name}.norm_self", itself)
        if config.reads:
            x = graph.add_norm(x, f"{name}.norm_cross", memory)
        x = graph.add_norm(
            x, f"{name}.norm_ff", lambda h, n=name: graph.feed_forward(h, f"{n}.feed_forward")
        )
        for kind, value in zip("kv", present, strict=True):
            graph.gives(value, f"present_{kind}_{index}", heads_of(config, "all"))
    x = graph.norm(x, "decoder.norm") if config.norm == "pre" else x
    graph.gives(graph.logits(x), "logits", ["batch", "new", config.vocab_size])
    return graph.model("decoder")
