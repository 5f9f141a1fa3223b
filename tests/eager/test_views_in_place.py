"""Views in place change the tensor, not memory: no program stands in for them."""

from __future__ import annotations

import pytest
import torch

from torch_trainium import eager

pytest.importorskip("jaxlib")


@pytest.fixture(autouse=True)
def compiled():
    with eager.eager_mode_is("compiled"):
        yield


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.squeeze_(),
        lambda x: x.squeeze_(-1),
        lambda x: x.squeeze_((0,)),
        lambda x: x.as_strided_((), ()),
        lambda x: x.unsqueeze_(0),
    ],
    ids=["squeeze_", "squeeze_.dim", "squeeze_.dims", "as_strided_", "unsqueeze_"],
)
def test_view_in_place_has_the_cpu_shape_and_storage(view):
    storage = torch.arange(3.0)
    on_device = storage.to("neuron")
    expected, given = view(storage[1:2]), view(on_device[1:2])
    assert given.shape == expected.shape
    assert given.stride() == expected.stride()
    assert given.data_ptr() == on_device.data_ptr() + on_device.itemsize


def test_quantile_of_all_elements_is_zero_dim():
    with torch.neuron.fallback_is("allow"):
        assert torch.arange(4.0, device="neuron").quantile(0.3).shape == ()
