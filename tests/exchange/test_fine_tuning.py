"""What was imported can be trained on with other text, and goes back to where it came from."""

import json

import pytest

import clearhead
from clearhead.errors import ExchangeError
from clearhead.exchange import export_model, import_model
from clearhead.folder import RunFolder

SHORT = {
    "train": {"max_steps": 3, "score_sample": 4},
    "data": {"validation_share": 0.2, "window": 32},
}
FIRST = {**SHORT, "model": {"pooling": "first"}}
PLAIN = {**SHORT, "model": {"logit_bias": False}}


@pytest.fixture
def files(tmp_path):
    """A few lines of text, pairs of them, and lines with labels."""
    texts = [f"a man rides {n} bikes and {n} dogs sleep under the table" for n in range(40)]
    (tmp_path / "a.txt").write_text("".join(f"{text}\n" for text in texts))
    (tmp_path / "b.txt").write_text("".join(f"zwei hunde schlafen {n}\n" for n in range(40)))
    (tmp_path / "mood.tsv").write_text(
        "".join(f"{'even' if n % 2 else 'odd'}\t{text}\n" for n, text in enumerate(texts))
    )
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "names", "task", "settings", "becomes"),
    [
        ("BertForMaskedLM", ["mood.tsv"], "classification", SHORT, "BertForSequenceClassification"),
        ("BertModel", ["mood.tsv"], "classification", FIRST, "BertForSequenceClassification"),
        ("DistilBertForMaskedLM", ["mood.tsv"], "classification", SHORT, "DistilBertForSequenceClassification"),
        ("GPT2LMHeadModel", ["a.txt"], "writing", PLAIN, "GPT2LMHeadModel"),
        ("MarianMTModel", ["a.txt", "b.txt"], "translation", SHORT, "MarianMTModel"),
    ],
)  # fmt: skip
def test_an_imported_model_is_fine_tuned_and_exported(
    foreign, files, kind, names, task, settings, becomes
):
    _, folder = foreign(kind)
    import_model(folder, files / "base")
    user = clearhead.train(
        *(files / name for name in names),
        into=files / "tuned",
        task=task,
        start=files / "base",
        settings=settings,
    )
    inherited = RunFolder.open(files / "tuned").plan().inherited
    assert any(name.endswith("qkv.weight") for name in inherited.taken)
    assert "tokens.weight" in inherited.taken
    assert user.tokenizer.fingerprint == RunFolder.open(files / "base").tokenizers()[1].fingerprint
    certificate = export_model(files / "tuned", "hf", files / "out")
    assert certificate.is_good
    assert certificate.tokens_same == 1
    assert json.loads((files / "out" / "config.json").read_text())["architectures"] == [becomes]


def test_what_a_layout_cannot_express_is_refused_by_name(foreign, files):
    _, folder = foreign("GPT2LMHeadModel")
    import_model(folder, files / "base")
    clearhead.train(
        files / "a.txt", into=files / "tuned", task="writing", start=files / "base", settings=SHORT
    )
    with pytest.raises(ExchangeError, match=r"head\.bias was learned"):
        export_model(files / "tuned", "hf", files / "out")
    assert not (files / "out").exists()
