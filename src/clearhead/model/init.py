"""How weights begin: the one place that says so.

`xavier` is for post-norm (base and big): Glorot-uniform matrices, as in the paper's own code, so
that each product keeps the variance of what passes forwards and backwards; the norm after each
addition holds the sum in bounds.

`small` is for pre-norm (tiny and small): normal with variance 2 / (5 d_model), and each matrix that
writes to the residual stream divided by √(number of such writes), so that the stream, which no norm
holds in bounds, does not grow with depth.

In both, token vectors have variance 1 / d_model: after the √d_model of the embedding they are as
large as the position vectors, and as output matrix they give logits of variance about 1. Without
that scaling they begin at BERT's 0.02. Biases begin at 0, norms at 1.

In recurrent layers each gate's matrix is drawn on its own: Glorot-uniform for what comes in, and
orthogonal for the state, which keeps its length however often it passes. The bias of an LSTM's
forget gate begins at 1: a cell that remembers lets gradients through.
"""

import math

import torch
from torch import Tensor, nn

from clearhead.config import ModelConfig
from clearhead.model.attention import Attention
from clearhead.model.block import FeedForward
from clearhead.model.positions import LearnedPositions
from clearhead.model.stack import Stack

BERT_STD = 0.02


@torch.no_grad()
def initialise(model: nn.Module, config: ModelConfig) -> None:
    """Draw every weight anew; a model without memory, which others will fill, is left alone."""
    if next(model.parameters()).is_meta:
        return
    for module in model.modules():
        if isinstance(module, nn.Linear):
            draw_matrix(module.weight, config)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            scaled = config.scale_embeddings
            nn.init.normal_(module.weight, std=config.d_model**-0.5 if scaled else BERT_STD)
        elif isinstance(module, LearnedPositions):
            nn.init.normal_(module.table, std=BERT_STD)
        elif isinstance(module, nn.RNNBase):
            draw_gates(module)
    for module in model.modules():
        if isinstance(module, Attention):
            # Three square matrices that happen to lie together.
            for third in module.qkv.weight.chunk(3):
                draw_matrix(third, config)
        elif isinstance(module, Stack) and config.init == "small":
            quieten_writes(module)


def draw_matrix(weight: Tensor, config: ModelConfig) -> None:
    """A matrix of random weights, of the variance that the settings ask for."""
    if config.init == "xavier":
        nn.init.xavier_uniform_(weight)
    else:
        nn.init.normal_(weight, std=math.sqrt(2 / (5 * config.d_model)))


def draw_gates(cells: nn.RNNBase) -> None:
    """The weights of an LSTM or a GRU, whose gates' matrices lie one above the other."""
    for name, weight in cells.named_parameters():
        gates = weight.chunk(len(weight) // cells.hidden_size)
        if name.startswith("bias"):
            nn.init.zeros_(weight)
            if isinstance(cells, nn.LSTM) and name.startswith("bias_ih"):
                nn.init.ones_(gates[1])
        for gate in gates if name.startswith("weight") else ():
            draw = nn.init.xavier_uniform_ if name.startswith("weight_ih") else nn.init.orthogonal_
            draw(gate)


def quieten_writes(stack: Stack) -> None:
    """Divide what each sub-layer adds to the residual stream by √(how many add to it)."""
    sublayers = [
        module for module in stack.modules() if isinstance(module, Attention | FeedForward)
    ]
    for sublayer in sublayers:
        sublayer.out.weight /= math.sqrt(len(sublayers))
