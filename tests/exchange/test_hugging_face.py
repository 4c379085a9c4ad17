"""A model from Hugging Face says the same here, and goes back as it came."""

import json

import pytest
import torch
from torch.testing import assert_close

import clearhead
from clearhead.exchange import export_model, import_model
from clearhead.exchange.foreign import read_lexicon
from clearhead.exchange.hugging_face import source_in
from clearhead.folder import RunFolder
from clearhead.tensors import read_tensors

SHAPES = {
    "BERT for hidden words": ("BertForMaskedLM", {}),
    "BERT with capitals": ("BertForMaskedLM", {"lower": False, "hidden_act": "gelu_new"}),
    "BERT for classes": ("BertForSequenceClassification", {"num_labels": 3}),
    "BERT for vectors": ("BertModel", {}),
    "DistilBERT for hidden words": ("DistilBertForMaskedLM", {}),
    "DistilBERT for classes": ("DistilBertForSequenceClassification", {"num_labels": 4}),
    "DistilBERT for vectors": ("DistilBertModel", {}),
    "GPT-2": ("GPT2LMHeadModel", {}),
    "GPT-2 with two matrices": ("GPT2LMHeadModel", {"tie_word_embeddings": False, "n_inner": 30}),
    "Marian": ("MarianMTModel", {}),
    "Marian with BPE": ("MarianMTModel", {"pieces": "bpe", "activation_function": "relu"}),
    "Marian with two vocabularies": ("MarianMTModel", {"separate": True}),
}
TEXTS = [
    "A man rides a bike, and sings!",
    "Zwei Hunde schlafen.",
    "how far is it ? 42 ünïcode 東京",
]


@pytest.fixture(scope="module", params=SHAPES)
def brought(request, foreign, tmp_path_factory):
    """A foreign model, its folder, and the run that it became."""
    kind, changes = SHAPES[request.param]
    model, folder = foreign(kind, **changes)
    run = tmp_path_factory.mktemp("run") / "run"
    assert import_model(folder, run).is_good
    return model, folder, RunFolder.open(run)


@pytest.fixture(scope="module")
def exported(brought):
    """The folder that the run is exported to."""
    run = brought[2]
    assert export_model(run.path, "hf", run.path.parent / "out").is_good
    return run.path.parent / "out"


def theirs(order, ids):
    return [order.ids[order.like.get(number, number)] for number in ids]


def asked(brought, text):
    """Both models' answers to a text, over the tokens that both have."""
    other, folder, run = brought
    model, lexicon = run.model(), read_lexicon(folder, source_in(folder).kind)
    source, target = lexicon.tokenizers
    ids = source.encode(text)
    read = source.reading(ids) if model.config.reads else [2, *ids]
    said = [1, *target.encode(text)]
    with torch.inference_mode():
        if model.config.family == "encoder-decoder":
            ours = model(torch.tensor([read]), torch.tensor([said]))
            found = other(
                input_ids=torch.tensor([theirs(lexicon.orders[0], read)]),
                decoder_input_ids=torch.tensor([theirs(lexicon.orders[1], said)]),
            )[0]
        else:
            row = torch.tensor([read])
            ours = model(row) if model.config.reads else model(None, row)
            found = other(input_ids=torch.tensor([theirs(lexicon.orders[0], read)]))[0]
    order = lexicon.orders[1]
    known = [number for number, id_ in enumerate(order.ids) if id_ is not None]
    if ours.size(-1) == len(order.ids):
        return ours[..., known], found[..., [order.ids[number] for number in known]]
    return ours, found


@pytest.mark.parametrize("text", TEXTS)
def test_logits_are_the_same_within_a_ten_thousandth(brought, text):
    ours, other = asked(brought, text)
    assert other.abs().max() > 0.1
    assert_close(ours, other, atol=1e-4, rtol=0)


def test_what_is_exported_is_what_was_imported_bit_for_bit(brought, exported, tmp_path):
    _, folder, run = brought
    before = read_tensors(folder, "model.safetensors", is_verified=True)
    after = read_tensors(exported, "model.safetensors", is_verified=True)
    assert before.keys() == after.keys()
    for name, weight in before.items():
        assert torch.equal(weight, after[name]), name
    import_model(exported, tmp_path / "again")
    again = RunFolder.open(tmp_path / "again").model().state_dict()
    for name, weight in run.model().state_dict().items():
        assert torch.equal(weight, again[name]), name


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_transformers_reads_what_was_exported_with_its_tokenizer(brought, exported):
    import transformers

    other, folder, run = brought
    again = type(other).from_pretrained(exported)
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported)
    read = tokenizer(TEXTS[0], return_tensors="pt")
    lexicon = read_lexicon(folder, source_in(folder).kind)
    own = lexicon.tokenizers[0]
    expected = (
        own.reading(own.encode(TEXTS[0])) if run.config().model.reads else own.encode(TEXTS[0])
    )
    assert read.input_ids[0].tolist() == theirs(lexicon.orders[0], expected)
    more = {"decoder_input_ids": read.input_ids[:, :3]} if other.config.is_encoder_decoder else {}
    with torch.inference_mode():
        assert_close(again(**read, **more)[0], other(**read, **more)[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "MarianMTModel"])
def test_greedy_output_is_identical(kind, foreign, tmp_path):
    other, folder = foreign(kind)
    import_model(folder, tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    lexicon = read_lexicon(folder, source_in(folder).kind)
    from clearhead.config import DecodeConfig
    from clearhead.decode import decode

    greedy = DecodeConfig(beam=1, max_length=12, guard=False)
    order = lexicon.orders[1]
    silent = [[number] for number in (theirs(order, [1, 3]) if run.config().model.reads else [0])]
    for text in TEXTS:
        ids = lexicon.tokenizers[0].encode(text)
        read = [*ids, 2] if run.config().model.reads else [2, *ids]
        ours = decode(run.model(), [read], greedy)[0][0]
        row = torch.tensor([theirs(lexicon.orders[0], read)])
        found = other.generate(
            row, do_sample=False, num_beams=1, max_new_tokens=12, bad_words_ids=silent,
            attention_mask=torch.ones_like(row), forced_eos_token_id=None,
        )[0].tolist()  # fmt: skip
        new = found[1:] if run.config().model.reads else found[len(read) :]
        end = theirs(order, [2])[0]
        new = new[: new.index(end)] if end in new else new
        assert theirs(order, ours.ids) == new


def test_every_tensor_is_accounted_for(brought):
    _, folder, run = brought
    told = json.loads((run.path / "certificate.json").read_text())["tensors"]
    found = read_tensors(folder, "model.safetensors", is_verified=True)
    assert sum(map(len, told.values())) == len(found)


def test_an_imported_model_is_a_run_like_any_other(brought):
    _, _, run = brought
    assert run.problems() == []
    user = clearhead.load(run.path)
    look = user.look("a man ____ a bike" if isinstance(user, clearhead.Filler) else "a man sings")
    assert look.attentions
    match user:
        case clearhead.Translator():
            assert isinstance(str(user.translate("a man sings")), str)
        case clearhead.Writer():
            assert str(user.write("a man", max_length=5)).startswith("a man")
        case clearhead.Classifier():
            assert user.classify("a man sings").label.startswith("LABEL_")
        case clearhead.Filler():
            assert len(user.fill("a man ____ a bike").gaps[0]) == 5
        case clearhead.Encoder():
            assert user.embed(["a man", "two dogs"]).shape == (2, 24)
