"""Axes of the report's plots."""

import pytest

from torch_trainium.neuron.timeline_view.plot import Axis


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (Axis(0, 16.6, 0, 1), [0, 5, 10, 15]),
        (Axis(0, 0.04, 0, 1), [0, 0.01, 0.02, 0.03, 0.04]),
        (Axis(0, 700, 0, 1, kind="binary"), [0, 256, 512]),
        (Axis(0.1, 2500, 0, 1, kind="log"), [0.1, 1, 10, 100, 1000]),
        (Axis(1, 1e10, 0, 1, kind="log"), [1, 1e2, 1e4, 1e6, 1e8, 1e10]),
    ],
)
def test_ticks_are_round(axis, ticks):
    assert axis.ticks() == pytest.approx(ticks)


def test_values_become_pixels():
    assert Axis(0, 10, 100, 200)(2.5) == 125
    assert Axis(1, 100, 300, 100, kind="log")(10) == pytest.approx(200)
