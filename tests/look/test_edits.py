"""Each edit takes away exactly what it says, and leaves the rest."""

import pytest
import torch
from looks import look_at
from torch.testing import assert_close

from clearhead.errors import ConfigError
from clearhead.look.edits import NAMES, edits_of


def edited(model, *names):
    """The tensors of a pass with edits, beside those of one without."""
    return look_at(model, edits=edits_of(names, model.config).taps), look_at(model)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(
    "name", [*sorted(set(NAMES) - {"silence", "one-head"}), "one-head:1", "silence:decoder.0"]
)
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder", "encoder"])
def test_every_edit_changes_the_output_of_every_family_that_has_what_it_takes_away(
    build, family, name, norm
):
    model = build(family=family, norm=norm)
    if family == "encoder" and name in ("no-mask", "silence:decoder.0"):
        with pytest.raises(ConfigError, match="finds nothing to change"):
            edited(model, name)
    else:
        changed, plain = edited(model, name)
        assert not torch.allclose(changed.logits, plain.logits, atol=1e-3)


def test_without_the_scale_the_softmax_sees_the_scores(build):
    changed, _ = edited(build(), "no-scale")
    for part in changed.attentions:
        assert_close(changed.seen[f"{part}.scaled"], changed.seen[f"{part}.scores"])


def test_without_the_mask_the_first_token_sees_the_last(build):
    changed, plain = edited(build(), "no-mask")
    assert plain.seen["decoder.0.self.pattern"][:, 0, -1].max() == 0
    assert changed.seen["decoder.0.self.pattern"][:, 0, -1].min() > 0


def test_without_positions_the_order_of_the_source_does_not_matter(build):
    model = build()
    taps = edits_of("no-positions", model.config).taps
    one, other = (look_at(model, source, edits=taps) for source in ((5, 9, 8, 2), (8, 5, 9, 2)))
    assert_close(one.logits, other.logits, atol=1e-5, rtol=1e-5)


def test_without_the_residual_nothing_passes_by(build):
    changed, _ = edited(build(norm="pre"), "no-residual")
    for part in ("encoder.0.self", "decoder.1.cross", "decoder.1.ff"):
        assert torch.equal(changed.seen[f"{part}.add"], changed.seen[f"{part}.out"])


@pytest.mark.parametrize(("norm", "before"), [("pre", "resid_pre"), ("post", "self.add")])
def test_without_the_norm_vectors_stay_as_they_are(build, norm, before):
    changed, _ = edited(build(norm=norm), "no-norm")
    assert torch.equal(changed.seen["encoder.1.self.norm"], changed.seen[f"encoder.1.{before}"])


def test_one_head_is_left_and_a_silenced_one_is_not(build):
    model = build()
    left, _ = edited(model, "one-head:2")
    for part in left.attentions:
        assert [bool(z.any()) for z in left.seen[f"{part}.z"]] == [False, False, True, False]
    silenced, _ = edited(model, "silence:decoder.1.cross.2")
    assert [bool(z.any()) for z in silenced.seen["decoder.1.cross.z"]] == [True, True, False, True]
    assert silenced.seen["decoder.0.cross.z"].all()


def test_a_silenced_layer_is_not_there(build):
    changed, _ = edited(build(), "silence:encoder.1")
    assert torch.equal(changed.seen["encoder.1.resid_post"], changed.seen["encoder.0.resid_post"])


def test_a_painted_row_looks_where_it_is_told(build):
    changed, plain = edited(build(), "paint:decoder.0.cross.1:2:3")
    assert changed.seen["decoder.0.cross.pattern"][1, 2].tolist() == [0, 0, 0, 1, 0, 0]
    assert torch.equal(
        changed.seen["decoder.0.cross.pattern"][1, 1], plain.seen["decoder.0.cross.pattern"][1, 1]
    )


def test_edits_of_the_same_place_follow_each_other(build):
    changed, _ = edited(build(), "silence:decoder.0.self.1", "silence:decoder.0.self.2")
    assert [bool(z.any()) for z in changed.seen["decoder.0.self.z"]] == [True, False, False, True]


def test_a_word_is_swapped_by_its_number(build):
    edits = edits_of(["swap:1:dog"], build().config)
    assert edits.swapped("the cat sleeps") == "the dog sleeps"
    with pytest.raises(ConfigError, match="no word 1"):
        edits.swapped("cat")


@pytest.mark.parametrize(
    "name",
    ["no-sense", "", "one-head", "silence", "silence:decoder.7", "silence:decoder.1.cross.9", "paint:decoder.1.cross.1",
     "paint:decoder.1.cross.1:a:b", "swap:x:y", "no-scale:decoder.1.ff", "no-mask:encoder"],
)  # fmt: skip
def test_an_edit_that_is_none_is_refused_with_those_that_there_are(build, name):
    with pytest.raises(ConfigError, match="as in silence:") as refused:
        edits_of(name, build().config)
    assert len(refused.value.whole.splitlines()) <= 3
