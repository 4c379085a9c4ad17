"""Averages of weights."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.training.state import MovingAverage, mean_weights


def test_the_moving_average_is_its_recurrence():
    model = torch.nn.Linear(3, 2)
    average = MovingAverage(model, decay=0.9)
    expected = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for n in range(1, 200):
        with torch.no_grad():
            model.weight.add_(torch.randn(2, 3))
        average.update(model)
        past = min(0.9, (1 + n) / (10 + n))
        expected = {
            name: past * expected[name] + (1 - past) * model.state_dict()[name] for name in expected
        }
    for name, tensor in expected.items():
        torch.testing.assert_close(average.tensors[name], tensor)


def test_the_moving_average_is_no_view_of_the_model():
    model = torch.nn.Linear(2, 2)
    average = MovingAverage(model, decay=0.5)
    before = average.tensors["weight"].clone()
    with torch.no_grad():
        model.weight.zero_()
    assert torch.equal(average.tensors["weight"], before)


@given(
    several=st.lists(
        st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=1, max_size=6
    )
)
def test_the_mean_of_checkpoints_is_their_mean_in_any_order(several):
    sets = [{"w": torch.tensor(values)} for values in several]
    found = mean_weights(sets)["w"]
    torch.testing.assert_close(
        found, torch.stack([each["w"] for each in sets]).mean(dim=0), rtol=1e-5, atol=1e-1
    )
    torch.testing.assert_close(found, mean_weights(reversed(sets))["w"])
    assert found.dtype == torch.float32
