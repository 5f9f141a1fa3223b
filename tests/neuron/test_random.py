"""`torch.neuron`'s seeds and states, and PyTorch's functions over them."""

from collections.abc import Iterator

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.python_process import output_of


@pytest.fixture(autouse=True)
def restored_generators() -> Iterator[None]:
    states = torch.neuron.get_rng_state_all()
    yield
    torch.neuron.set_rng_state_all(states)


def draw(device: str = "neuron") -> torch.Tensor:
    return torch.rand(5, device=device).cpu()


def test_torch_manual_seed_seeds_every_device() -> None:
    torch.manual_seed(11)
    assert [g.initial_seed() for g in torch.neuron.default_generators] == [11] * 4
    first = [draw("neuron:0"), draw("neuron:1")]
    torch.manual_seed(11)
    assert torch.equal(draw("neuron:0"), first[0])
    assert torch.equal(draw("neuron:1"), first[1])


def test_manual_seed_seeds_the_current_device_alone() -> None:
    torch.neuron.manual_seed_all(1)
    with torch.neuron.device(2):
        torch.neuron.manual_seed(5)
        assert torch.neuron.initial_seed() == 5
    assert [g.initial_seed() for g in torch.neuron.default_generators] == [1, 1, 5, 1]


def test_seed_gives_the_current_device_a_new_seed() -> None:
    torch.neuron.manual_seed_all(1)
    torch.neuron.seed()
    assert torch.neuron.initial_seed() != 1
    assert torch.neuron.default_generators[1].initial_seed() == 1


def test_seed_all_gives_every_device_the_same_new_seed() -> None:
    torch.neuron.manual_seed_all(1)
    torch.neuron.seed_all()
    seeds = {g.initial_seed() for g in torch.neuron.default_generators}
    assert len(seeds) == 1
    assert seeds != {1}


@pytest.mark.parametrize("device", ["neuron:1", 1, torch.device("neuron", 1)])
def test_state_of_a_named_device_round_trips(device: str | int | torch.device) -> None:
    state = torch.neuron.get_rng_state(device)
    expected = draw("neuron:1")
    torch.neuron.set_rng_state(state, device)
    assert torch.equal(draw("neuron:1"), expected)


def test_states_of_all_devices_round_trip() -> None:
    states = torch.neuron.get_rng_state_all()
    expected = [draw(f"neuron:{i}") for i in range(4)]
    torch.neuron.set_rng_state_all(states)
    assert all(torch.equal(draw(f"neuron:{i}"), expected[i]) for i in range(4))


def test_default_generators_are_a_sequence() -> None:
    generators = torch.neuron.default_generators
    assert len(generators) == torch.neuron.device_count() == 4
    assert generators[-1].device == torch.device("neuron", 3)
    assert [g.device.index for g in generators[1:3]] == [1, 2]
    assert generators[0] is generators[0]
    with pytest.raises(IndexError):
        generators[4]


def test_fork_rng_restores_the_devices() -> None:
    torch.manual_seed(3)
    expected = draw("neuron:1")
    torch.manual_seed(3)
    with torch.random.fork_rng(devices=[0, 1], device_type="neuron"):
        torch.manual_seed(99)
        draw("neuron:1")
    assert torch.equal(draw("neuron:1"), expected)


def test_fork_rng_covers_all_devices_by_default() -> None:
    torch.manual_seed(3)
    with torch.random.fork_rng(enabled=True, devices=range(4)):
        draw("neuron:3")
    assert torch.neuron.default_generators[3].get_offset() == 0


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointing_recomputes_with_the_same_dropout(use_reentrant: bool) -> None:
    masks = []

    def layer(x: torch.Tensor) -> torch.Tensor:
        dropped = torch.nn.functional.dropout(x, 0.5)
        masks.append(dropped.detach().cpu() != 0)
        return dropped * x

    x = torch.ones(64, device="neuron", requires_grad=True)
    checkpoint(layer, x, use_reentrant=use_reentrant).sum().backward()
    assert len(masks) == 2
    assert torch.equal(masks[0], masks[1])


def test_seeding_does_not_start_the_runtime() -> None:
    code = (
        "import torch, torch_trainium\n"
        "torch.manual_seed(3)\n"
        "torch.neuron.set_rng_state(torch.neuron.get_rng_state())\n"
        "print(torch.neuron.is_initialized(), torch.neuron.initial_seed())"
    )
    assert output_of(code) == "False 3"


def test_seed_set_before_first_use_is_used() -> None:
    code = (
        "import torch, torch_trainium\n"
        "torch.manual_seed(3)\n"
        "print(torch.rand(2, device='neuron').tolist())"
    )
    torch.manual_seed(3)
    assert output_of(code) == str(torch.rand(2, device="neuron").tolist())


def test_forked_child_inherits_the_seed() -> None:
    code = (
        "import os, torch, torch_trainium\n"
        "torch.manual_seed(3)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    print(torch.rand(2, device='neuron').tolist(), flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)"
    )
    torch.manual_seed(3)
    assert output_of(code) == str(torch.rand(2, device="neuron").tolist())


def test_seeding_without_a_device_does_nothing() -> None:
    code = (
        "import torch, torch_trainium\n"
        "torch_trainium._C.set_unavailable_reason('no device')\n"
        "torch.manual_seed(1); torch.neuron.manual_seed(1); torch.neuron.seed_all()\n"
        "print(len(torch.neuron.default_generators))"
    )
    assert output_of(code) == "0"
