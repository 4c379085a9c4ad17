"""The experiments on people's pairs, at toy size: heads, versus and table3."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.cli.main import main
from clearhead.config import Config, ModelConfig
from clearhead.lab.heads import HABITS, Heads, excess, habits_of, lexicon, linked, name_of_head
from clearhead.lab.notebook import Notebook, perform
from clearhead.lab.table3 import VARIATIONS, Table3, edited_loss, edits_for, smaller_keys
from clearhead.lab.toys import recall_batch
from clearhead.lab.versus import Versus
from clearhead.look.words import Token
from clearhead.model import Trace, build
from clearhead.tasks import load
from clearhead.tasks.evaluation import ablate_heads

LINES = [
    f"the {size} {animal} sees {thing} ."
    for size in ("big", "small", "old", "red", "wet")
    for animal in ("cat", "dog", "cow", "hen")
    for thing in ("birds", "trees", "houses", "shoes", "roses")
]
SMALL = (
    ("model", "d_model", 16), ("model", "n_encoder_layers", 1), ("model", "n_decoder_layers", 1),
    ("tokenizer", "vocab_size", 340), ("train", "max_steps", 4), ("train", "validate_every", 2),
)  # fmt: skip


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = tmp_path / "a.en", tmp_path / "a.de"
    for file, change in zip(files, (str.lower, str.upper), strict=True):
        file.write_text("".join(f"{change(line)}\n" for line in LINES))
    return files


def test_the_map_of_heads_is_that_of_ablation_with_names(corpus, tmp_path):
    run = str(tmp_path / "run")
    settings = [f"{section}.{name}={value}" for section, name, value in SMALL]
    files = [str(file) for file in corpus]
    command = ["train", *files, "--into", run, "--quiet"]
    assert main([*command, "--set", *settings, "model.n_heads=2"]) == 0
    found = perform(Heads(watched=4, translated=3), [run, *files], tmp_path / "heads")
    notebook = Notebook(tmp_path / "heads")
    whole, *without = notebook.rows("costs")
    pairs = list(zip(LINES[:3], map(str.upper, LINES[:3]), strict=True))
    known = ablate_heads(load(run), pairs)
    assert whole["loss"] == pytest.approx(known.loss)
    changes = {row["head"]: row["loss"] - whole["loss"] for row in without}
    assert changes == pytest.approx({head: loss for head, (loss, _) in known.changes.items()})
    habits = notebook.rows("habits")
    assert [row["head"] for row in habits] == list(known.changes)
    assert all(-1 <= row[habit] <= 1 for row in habits for habit in HABITS)
    assert {row[0] for row in found.table[1:]} == set(known.changes)


def tokens(words):
    return [
        Token(id=10 + ord(w[0]), text=w, word=n, special=w == "</s>") for n, w in enumerate(words)
    ]


@given(st.integers(3, 9), st.sampled_from(["previous", "next", "same"]))
def test_a_head_that_does_one_thing_is_named_after_it(n, habit):
    text = tokens([chr(97 + i) for i in range(n)])
    asked = habits_of("encoder.0.self", (text, text), {}, torch.full((1, n, n), 1 / n))
    pattern = asked[habit] * 0.98 + 0.02 / n
    found = dict.fromkeys(HABITS, 0.0) | {
        name: excess(pattern, wanted) for name, wanted in asked.items() if name != "position"
    }
    assert name_of_head(found).startswith(habit)
    even = torch.full((n, n), 1 / n)
    assert all(
        abs(excess(even, wanted.expand_as(even[None])[0])) < 1e-6 for wanted in asked.values()
    )


def test_the_lexicon_links_words_that_come_together():
    texts = [("a b", "A B"), ("a c", "A C"), ("b c", "C B"), ("c a", "A C")]
    sides = [(tokens([*s.split(), "</s>"]), tokens([*t.split(), "</s>"])) for s, t in texts]
    links = lexicon(sides)
    for source, target in sides:
        table = linked(source, target, links)
        assert [source[int(row.argmax())].text for row in table[:2]] == [
            token.text.lower() for token in target[:2]
        ]
        assert not table[2].any()  # an end is linked with nothing


def test_three_architectures_learn_from_the_same_pairs(corpus, tmp_path):
    experiment = Versus(seconds=30, settings=SMALL)
    found = perform(experiment, corpus, tmp_path / "versus")
    rows = Notebook(tmp_path / "versus").rows("results")
    assert [row["architecture"] for row in rows] == ["transformer", "lstm", "gru"]
    assert all(row["updates"] == 4 and row["tokens_per_second"] > 0 for row in rows)
    curves = Notebook(tmp_path / "versus").rows("curves")
    assert [row["updates"] for row in curves] == [2, 4] * 3
    assert all(math.isfinite(row["loss"]) for row in curves)
    # the held-out sentences, by each model
    assert found.details.count("LSTM, seed 0:") == found.details.count("GRU, seed 0:") > 0
    again = perform(experiment, corpus, tmp_path / "versus")
    assert again == found


def test_variations_are_trained_judged_and_set_beside_the_papers_numbers(corpus, tmp_path):
    names = ("base", "1 head", "no positions")
    experiment = Table3(names=names, steps=2, seeds=2, translated=2)
    found = perform(experiment, corpus, tmp_path / "table3")
    rows = Notebook(tmp_path / "table3").rows("table3")
    assert [(row["name"], row["seed"]) for row in rows] == [(n, s) for s in (0, 1) for n in names]
    assert all(1 < row["perplexity"] < 2_000 for row in rows)
    assert len({row["perplexity"] for row in rows}) == len(rows)
    assert found.table[2][-3:] == ("h = 1", "5.29", "24.9")
    assert "±" in found.table[1][3]


def test_every_variation_is_a_model_that_can_be_built():
    names = [variation.name for variation in VARIATIONS]
    assert len(set(names)) == len(names)
    for variation in VARIATIONS:
        config = Config(model={"n_heads": 8, "d_model": 64, **variation.changes.get("model", {})})
        edits_for(variation, config)


def test_smaller_keys_are_attention_of_that_many_entries():
    torch.manual_seed(0)
    shape = {"d_model": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    config = Config(model=ModelConfig(vocab_size=20, dropout=0.0, **shape))
    model, trace = build(config.model).eval(), Trace(smaller_keys(3, config))
    model(torch.arange(8, 13)[None], torch.arange(8, 12)[None], tap=trace)
    q, k = (trace[f"encoder.0.self.{name}"][..., :3] for name in "qk")
    by_hand = (q / math.sqrt(8 / 3)) @ k.mT / math.sqrt(3)
    torch.testing.assert_close(trace["encoder.0.self.scaled"], by_hand)
    assert not trace["encoder.0.self.k"][..., 3:].any()


def test_an_edit_is_in_force_while_the_model_learns():
    torch.manual_seed(0)
    model = build(
        ModelConfig(family="decoder", vocab_size=20, d_model=16, n_decoder_layers=1)
    ).eval()
    batch = recall_batch(2, 4, 1)(torch.Generator().manual_seed(0))
    batch.target_in.clamp_(max=19)
    batch.target_out.clamp_(max=19)
    silent = {"decoder.0.self.out": torch.zeros_like}
    plain, edited = (edited_loss(0.0, edits)(model, batch)[0] for edits in ({}, silent))
    assert plain.item() != edited.item()
    edited.backward()
    assert model.decoder.layers[0].self_attention.out.weight.grad is None
