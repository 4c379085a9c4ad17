"""A run folder gives back what was put in, and refuses what does not belong together."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from clearhead.cli.main import main
from clearhead.config import ModelConfig, TokenizerConfig
from clearhead.errors import ConfigError, FolderError, ModelFileError, TokenizerError
from clearhead.folder import RunFolder
from clearhead.folder.run import empty_model, least_bytes
from clearhead.model import Transformer
from clearhead.text import Tokenizer

from .conftest import (
    CONFIG,
    PLAN,
    TOKENIZER,
    checkpoint_of,
    is_whole,
    same,
    state_of,
    strays,
    weights,
)

OTHER = Tokenizer.learn(["quite another text"] * 5, TokenizerConfig(method="characters"))


def test_a_model_is_loaded_as_it_was_saved_to_the_bit(run):
    model = run.model()
    assert same(model.state_dict(), weights(0))
    assert not model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("family", ["encoder-decoder", "encoder", "decoder"])
@pytest.mark.parametrize("tie", ["all", "output", "none"])
def test_every_kind_of_model_computes_the_same_after_loading(tmp_path, family, tie):
    settings = CONFIG.model.but(
        family=family, tie=tie, positions="learned", logit_bias=True, n_token_types=2
    )
    run = RunFolder.create(tmp_path / "run", CONFIG.but(model=settings), TOKENIZER)
    model, ids = Transformer(settings).eval(), torch.arange(6)[None]
    run.write_weights(model.state_dict())
    inputs = {
        "source": None if family == "decoder" else ids,
        "target": None if family == "encoder" else ids,
    }
    assert torch.equal(run.model()(**inputs), model(**inputs))


def test_tied_matrices_are_stored_once_and_stay_tied(run):
    def size(tie: str, path: Path) -> int:
        settings = CONFIG.model.but(tie=tie)
        untied = RunFolder.create(path, CONFIG.but(model=settings), TOKENIZER)
        untied.write_weights(Transformer(settings).state_dict())
        return (path / "weights.safetensors").stat().st_size

    matrix = CONFIG.model.vocab_size * CONFIG.model.d_model * 4
    assert (
        size("none", run.path.with_name("none")) - size("all", run.path.with_name("all")) >= matrix
    )
    model, ids = run.model(), torch.arange(6)[None]
    before = model(target=ids)
    with torch.no_grad():
        model.tokens.weight[3] += 1
    assert not torch.equal(model(target=ids)[..., 3], before[..., 3])


def test_tensors_that_share_memory_or_are_not_contiguous_are_saved_as_they_look(run):
    whole = torch.arange(12.0).reshape(3, 4)
    tensors = {
        "whole": whole,
        "again": whole,
        "row": whole[1],
        "turned": whole.T,
        "every other": whole[:, ::2],
    }
    run.checkpoints.save(1, {"average": tensors}, state_of(1))
    assert same(run.checkpoints.newest().tensors("average"), tensors)


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int8", "uint8", "bool"]
)
def test_every_kind_of_number_is_saved_and_loaded(run, dtype):
    tensors = {
        shape: torch.ones(eval(shape), dtype=getattr(torch, dtype))
        for shape in ("()", "(0,)", "3", "(2, 0, 3)")
    }
    run.checkpoints.save(1, {"optimizer": tensors}, state_of(1))
    assert same(run.checkpoints.newest().tensors("optimizer"), tensors)


def test_other_programs_read_the_weights(run):
    from safetensors.torch import load_file

    assert same(load_file(run.path / "weights.safetensors"), weights(0))


def test_loading_draws_no_random_numbers(run):
    before = torch.get_rng_state()
    run.model()
    assert torch.equal(torch.get_rng_state(), before)


def test_new_weights_do_not_disturb_a_model_that_is_in_use(run):
    model = run.model()
    run.write_weights(weights(1))
    assert same(model.state_dict(), weights(0))
    assert same(run.model().state_dict(), weights(1))


def test_settings_and_tokenizer_come_back(run):
    assert run.config().model == CONFIG.model
    source, target = run.tokenizers()
    assert source is target
    assert source.json == TOKENIZER.json
    run.write_config(run.config().but(task="chat"))
    assert run.config().task == "chat"


def test_source_and_target_may_have_tokenizers_of_their_own(tmp_path):
    run = RunFolder.create(tmp_path / "run", CONFIG, TOKENIZER, OTHER)
    assert run.tokenizers()[1].fingerprint == TOKENIZER.fingerprint
    assert run.tokenizers()[0].fingerprint == OTHER.fingerprint
    target, source = run.path / "tokenizer.json", run.path / "source-tokenizer.json"
    kept = source.read_bytes()
    source.write_bytes(target.read_bytes())
    with pytest.raises(
        TokenizerError, match=r"source-tokenizer\.json is not the tokenizer that trained"
    ):
        run.tokenizers()
    target.write_bytes(kept)
    with pytest.raises(TokenizerError, match=r"/tokenizer\.json is not the tokenizer that trained"):
        run.tokenizers()


def test_the_tokenizer_of_another_model_is_refused_with_the_reason(run):
    (run.path / "tokenizer.json").write_text(OTHER.json)
    with pytest.raises(
        TokenizerError, match=f"{OTHER.fingerprint}, config.toml has {TOKENIZER.fingerprint}"
    ):
        run.tokenizers()
    assert any("is not the tokenizer" in problem for problem in run.problems())


def test_the_weights_of_another_model_are_refused_with_the_reason(run):
    other = CONFIG.model.but(d_ff=8)
    with pytest.raises(ModelFileError, match=r"weights of another model: .* is float32 \[8"):
        run.write_weights(Transformer(other).state_dict())
    run.write_config(
        run.config().but(model=CONFIG.model.but(activation="gelu", embedding_norm=True))
    )
    with pytest.raises(
        ModelFileError, match=r"norm.* is nothing, and the settings ask for float32 \[4\]"
    ):
        run.model()


def test_a_folder_of_something_else_is_not_written_to(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FolderError, match=r"not empty: it holds 'thesis.tex'"):
        RunFolder.create(tmp_path, CONFIG, TOKENIZER)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_run_is_not_created_twice(run):
    with pytest.raises(FolderError, match="is a run already"):
        RunFolder.create(run.path, CONFIG, TOKENIZER)


def test_a_folder_that_is_no_run_is_refused_and_its_neighbours_are_named(run):
    with pytest.raises(FolderError) as refusal:
        RunFolder.open(run.path.with_name("ruin"))
    message = refusal.value.whole
    assert "ruin is not a clearhead run: config.toml and tokenizer.json missing." in message
    assert f"next to it: {run.path}." in message
    assert len(message.splitlines()) == 3
    assert RunFolder.open(run.path).path == run.path


def test_the_umask_is_honoured(tmp_path):
    before = os.umask(0o027)
    try:
        run = RunFolder.create(tmp_path / "run", CONFIG, TOKENIZER)
        run.write_weights(weights(0))
        run.checkpoints.save(*checkpoint_of(1))
        run.log.write({"step": 1})
    finally:
        os.umask(before)
    for path in [run.path, *run.path.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o750 if path.is_dir() else 0o640), path


def test_a_whole_run_has_nothing_wrong_with_it(run):
    run.write_plan(PLAN)
    run.checkpoints.save(*checkpoint_of(1))
    run.log.write({"step": 1})
    assert run.problems() == []
    (run.path / "weights.safetensors").unlink()
    assert run.problems() == [], "a run that is still in training has only checkpoints"


def test_all_that_is_wrong_is_told_at_once(run):
    run.checkpoints.save(*checkpoint_of(1))
    run.checkpoints.save(*checkpoint_of(2))
    for name in ("config.toml", "tokenizer.json", "checkpoints/00000002/optimizer.safetensors"):
        (run.path / name).write_bytes((run.path / name).read_bytes()[:-40])
    (run.path / "metrics.jsonl").write_text("{]\n")
    (run.path / "film.jsonl").write_text("{}\n[1]\n")
    (run.path / "checkpoints/notes.txt").touch()
    problems = "\n".join(run.problems())
    for part in (
        "config.toml",
        "metrics.jsonl:1",
        "film.jsonl:2",
        "notes.txt",
        "00000002/optimizer.safetensors is damaged",
    ):
        assert part in problems
    assert "00000001" not in problems


def test_loading_a_model_does_not_load_the_compiler_of_torch(run):
    code = f"""
import sys
from clearhead.folder import RunFolder
RunFolder({str(run.path)!r}).model()
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"False\n"


def test_settings_are_parsed_once_and_anew_when_the_file_has_changed(run):
    first = run.config()
    assert run.config() is RunFolder(run.path).config() is first
    run.write_config(first.but(train=first.train.but(seed=7)))
    assert run.config().train.seed == 7
    path = run.path / "config.toml"
    path.write_text(path.read_text().replace("seed = 7", "seed = 8"))
    assert run.config().train.seed == 8


def test_the_command_line_tells_what_is_wrong_with_a_run(run, capsys):
    assert main(["verify", str(run.path)]) == 0
    assert capsys.readouterr().out == f"Nothing is wrong with {run.path}.\n"
    (run.path / "metrics.jsonl").write_text("{]\n")
    (run.path / "weights.safetensors").unlink()
    assert main(["verify", str(run.path)]) == 1
    told = capsys.readouterr().out
    assert "metrics.jsonl:1 is not a report" in told
    assert f"{run.path} has not ended: no step is saved." in told


def test_settings_that_ask_for_petabytes_are_refused_before_any_are_allocated(run):
    bomb = ModelConfig(vocab_size=2_000_000, d_model=65_536, d_ff=65_536, n_encoder_layers=256)
    run.write_config(run.config().but(model=bomb))
    with pytest.raises(ModelFileError, match=r"asks for weights of at least \d+,"):
        run.model()


@pytest.mark.parametrize("architecture", ["transformer", "lstm", "gru"])
def test_the_bound_on_the_weights_is_one_for_every_preset(architecture):
    for name in ("tiny", "big"):
        for family in ("encoder-decoder", "encoder", "decoder"):
            config = ModelConfig.preset(name, family=family, architecture=architecture)
            model = empty_model(config, 2**40, Path())
            actual = sum(tensor.nbytes for tensor in model.state_dict().values())
            assert actual / 3 < least_bytes(config) <= actual


@pytest.mark.parametrize(
    "text",
    [
        b"a = [" * 9_000,
        b"a." * 30_000 + b"a = 1",
        b"\xff",
        b"[model]\nd_model = 5\n",
        b"x" * 70_000,
    ],
)
def test_settings_that_make_no_sense_are_refused_at_once(run, text):
    (run.path / "config.toml").write_bytes(text)
    with pytest.raises((ConfigError, FolderError)):
        run.config()


def test_a_card_comes_back(run):
    run.write_card("# English → German\n")
    assert run.card() == "# English → German\n"


def test_nothing_is_left_behind(run):
    run.checkpoints.save(*checkpoint_of(1))
    assert strays(run.path) == []
    assert is_whole(run.checkpoints.at(1), 1)
    assert run.checkpoints.at(2) is None
