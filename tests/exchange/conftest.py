"""Small models with random weights, as `transformers` writes them, with tokenizers that learned a little."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

LINES = [
    "a man rides a bike through the rain and sings",
    "two dogs sleep under the old wooden table",
    "the committee could not agree on three proposals",
    "how far is it to the next village ?",
    "people walked on the moon for the first time !",
    "ein mann fährt fahrrad durch den regen und singt",
    "zwei hunde schlafen unter dem alten tisch",
    "wie weit ist es bis zum nächsten dorf ?",
]
WORDS = sorted({word for line in LINES for word in line.split()})
BERT = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 64,
    "initializer_range": 0.4,
}
DISTILBERT = {
    "dim": 24,
    "n_layers": 2,
    "n_heads": 3,
    "hidden_dim": 40,
    "max_position_embeddings": 64,
    "initializer_range": 0.4,
}
GPT2 = {
    "n_embd": 24,
    "n_layer": 2,
    "n_head": 3,
    "n_positions": 64,
    "initializer_range": 0.4,
}
MARIAN = {
    "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 64,
    "activation_function": "swish", "scale_embedding": True, "init_std": 0.4,
}  # fmt: skip


def wordpieces() -> list[str]:
    letters = sorted(
        {letter for word in WORDS for letter in word}
        | set("abcdefghijklmnopqrstuvwxyz0123456789,.!?")
    )
    pieces = [*letters, *(f"##{letter}" for letter in letters), *WORDS]
    return ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(pieces)]


def save_bert_tokenizer(folder: Path, lower: bool = True) -> int:
    from transformers import BertTokenizer

    vocabulary = wordpieces()
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    BertTokenizer(str(folder / "vocab.txt"), do_lower_case=lower).save_pretrained(folder)
    return len(vocabulary)


def save_gpt2_tokenizer(folder: Path) -> int:
    from tokenizers import ByteLevelBPETokenizer
    from transformers import GPT2Tokenizer

    learner = ByteLevelBPETokenizer()
    learner.train_from_iterator(
        LINES, vocab_size=330, special_tokens=["<|endoftext|>"], show_progress=False
    )
    learner.save_model(str(folder))
    tokenizer = GPT2Tokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def save_marian_tokenizer(
    folder: Path, separate: bool = False, pieces: str = "unigram"
) -> list[int]:
    import sentencepiece
    from transformers import MarianTokenizer

    known: list[list[str]] = []
    for side, lines in (("source", LINES[:5]), ("target", LINES[5:])):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_prefix=str(folder / side),
            vocab_size=60 if pieces == "unigram" else 50,
            model_type=pieces,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        (folder / f"{side}.vocab").unlink()
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        known.append([model.id_to_piece(number) for number in range(3, len(model))])
    known[0] = known[0][:-2]  # the list may lack pieces

    def written(name: str, found: list[str]) -> int:
        tokens = ["</s>", "<unk>", *dict.fromkeys(found), "<pad>"]
        (folder / name).write_text(
            json.dumps({token: number for number, token in enumerate(tokens)})
        )
        return len(tokens)

    sizes = (
        [written("vocab.json", known[0]), written("target_vocab.json", known[1])]
        if separate
        else [written("vocab.json", [*known[0], *known[1]])]
    )
    own = {"target_vocab_file": str(folder / "target_vocab.json"), "separate_vocabs": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package that normalises further
        MarianTokenizer(
            source_spm=str(folder / "source.spm"),
            target_spm=str(folder / "target.spm"),
            vocab=str(folder / "vocab.json"),
            **(own if separate else {}),
        ).save_pretrained(folder)
    return sizes


def make(kind: str, folder: Path, **changes: Any) -> Any:
    """A model of an architecture in a folder, with its tokenizer; the model as transformers has it."""
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    tokenizer = {key: changes.pop(key) for key in ("lower", "separate", "pieces") if key in changes}
    if kind.startswith("Marian"):
        sizes = save_marian_tokenizer(folder, **tokenizer)
        own = (
            {}
            if len(sizes) == 1
            else {"decoder_vocab_size": sizes[1], "share_encoder_decoder_embeddings": False}
        )
        shape = {**MARIAN, "vocab_size": sizes[0], "pad_token_id": sizes[-1] - 1, **own}
        shape["decoder_start_token_id"] = sizes[-1] - 1
        config = transformers.MarianConfig(**{**shape, **changes})
    elif kind.startswith("GPT2"):
        n = save_gpt2_tokenizer(folder)
        config = transformers.GPT2Config(
            **{**GPT2, "vocab_size": n, "bos_token_id": 0, "eos_token_id": 0, **changes}
        )
    else:
        n = save_bert_tokenizer(folder, **tokenizer)
        shape, made = (
            (DISTILBERT, transformers.DistilBertConfig)
            if kind.startswith("Distil")
            else (BERT, transformers.BertConfig)
        )
        config = made(**{**shape, "vocab_size": n, **changes})
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:
                weight += 0.3 * torch.randn_like(weight)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    model.save_pretrained(folder)
    return model


@pytest.fixture(scope="session")
def foreign(tmp_path_factory) -> Callable[..., tuple[Any, Path]]:
    """Makes a foreign model in a folder of its own; the same arguments give the same folder."""
    pytest.importorskip("transformers")
    known: dict[str, tuple[Any, Path]] = {}

    def made(kind: str, **changes: Any) -> tuple[Any, Path]:
        key = f"{kind} {changes}"
        if key not in known:
            folder = tmp_path_factory.mktemp(kind.lower()) / "model"
            known[key] = make(kind, folder, **changes), folder
        return known[key]

    return made
