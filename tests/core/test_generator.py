"""The device's generator: cipher, state, seeds."""

import copy
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests import threefry_reference as reference
from tests.python_process import output_of

ROOT = Path(__file__).resolve().parents[2]

# counter, key and result of Threefry-2x32-20, from the known-answer tests published with the
# paper (Random123, kat_vectors).
KNOWN_ANSWERS = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((2**32 - 1, 2**32 - 1), (2**32 - 1, 2**32 - 1), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


def words(*values: int) -> tuple[np.ndarray, ...]:
    return tuple(np.array([value], dtype=np.uint32) for value in values)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator("neuron").manual_seed(1234)


def draw(generator: torch.Generator, count: int = 5) -> torch.Tensor:
    return torch.rand(count, device="neuron", generator=generator).cpu()


def test_cipher_gives_the_published_answers(tmp_path: Path) -> None:
    checks = "".join(
        f"static_assert(is(block(Key(uint64_t{{{key[1]}u}} << 32 | {key[0]}u), {counter[0]}u, "
        f"{counter[1]}u), {result[0]}u, {result[1]}u));\n"
        for counter, key, result in KNOWN_ANSWERS
    )
    source = tmp_path / "known_answers.cpp"
    source.write_text(
        '#include "core/threefry.h"\n'
        "using namespace torch_trainium::threefry;\n"
        "constexpr bool is(Words w, uint32_t x0, uint32_t x1) {\n"
        "  return w.x0 == x0 && w.x1 == x1;\n}\n" + checks
    )
    command = ["c++", "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'csrc'}", str(source)]
    subprocess.run(command, check=True)


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN_ANSWERS)
def test_reference_gives_the_published_answers(
    counter: tuple[int, int], key: tuple[int, int], result: tuple[int, int]
) -> None:
    assert reference.block(words(*key), words(*counter)) == words(*result)


@given(
    seed=st.integers(0, 2**64 - 1),
    offset=st.integers(0, 2**59).map(lambda n: n * 4),
    count=st.integers(1, 600),
)
def test_wide_words_are_those_of_the_reference(seed: int, offset: int, count: int) -> None:
    generator = torch.Generator("neuron").manual_seed(seed)
    generator.set_offset(offset)
    drawn = torch.empty(count, dtype=torch.int64, device="neuron")
    drawn.random_(-(2**63), None, generator=generator)
    expected = reference.wide(seed, offset, count)
    np.testing.assert_array_equal(drawn.cpu().numpy().view(np.uint64), expected)


@given(
    seed=st.integers(0, 2**64 - 1),
    offset=st.integers(0, 2**59).map(lambda n: n * 4),
    count=st.integers(1, 600),
)
def test_narrow_words_are_those_of_the_reference(seed: int, offset: int, count: int) -> None:
    generator = torch.Generator("neuron").manual_seed(seed)
    generator.set_offset(offset)
    drawn = torch.rand(count, device="neuron", generator=generator)
    expected = (reference.narrow(seed, offset, count) >> np.uint32(8)) * np.float32(2**-24)
    np.testing.assert_array_equal(drawn.cpu().numpy(), expected)


def test_counter_carries_into_its_high_word() -> None:
    offset = 2**33 - 128
    generator = torch.Generator("neuron").manual_seed(7)
    generator.set_offset(offset)
    drawn = torch.rand(1000, device="neuron", generator=generator)
    expected = (reference.narrow(7, offset, 1000) >> np.uint32(8)) * np.float32(2**-24)
    np.testing.assert_array_equal(drawn.cpu().numpy(), expected)


def test_new_generator_has_pytorchs_default_seed() -> None:
    generator = torch.Generator("neuron")
    assert generator.initial_seed() == torch.Generator("cpu").initial_seed() == 67280421310721
    assert generator.get_offset() == 0


def test_new_generator_belongs_to_the_current_device() -> None:
    with torch.neuron.device(1):
        assert torch.Generator("neuron").device == torch.device("neuron", 1)


def test_generator_of_a_missing_device_raises() -> None:
    with pytest.raises(RuntimeError, match="Invalid neuron device index 99"):
        torch.Generator("neuron:99")


def test_same_seed_draws_the_same(generator: torch.Generator) -> None:
    first = draw(generator)
    generator.manual_seed(1234)
    assert torch.equal(draw(generator), first)


def test_seed_draws_a_new_seed_from_entropy(generator: torch.Generator) -> None:
    draw(generator)
    seed = generator.seed()
    assert seed != 1234
    assert generator.initial_seed() == seed
    assert generator.get_offset() == 0


def test_negative_seed_counts_from_two_to_the_64(generator: torch.Generator) -> None:
    generator.manual_seed(-1)
    assert generator.initial_seed() == 2**64 - 1


def test_state_is_the_seed_and_the_offset(generator: torch.Generator) -> None:
    draw(generator, 6)
    state = generator.get_state()
    assert (state.dtype, state.device.type, tuple(state.shape)) == (torch.uint8, "cpu", (16,))
    assert struct.unpack("=Qq", state.numpy().tobytes()) == (1234, 8)


def test_resumed_generator_continues_the_stream(generator: torch.Generator) -> None:
    draw(generator, 3)
    state = generator.get_state()
    continued = [draw(generator, 7), draw(generator, 2)]
    resumed = torch.Generator("neuron")
    resumed.set_state(state)
    assert all(torch.equal(draw(resumed, len(part)), part) for part in continued)


def test_state_survives_saving(generator: torch.Generator, tmp_path: Path) -> None:
    draw(generator)
    torch.save(generator.get_state(), tmp_path / "state.pt")
    expected = draw(generator)
    generator.set_state(torch.load(tmp_path / "state.pt"))
    assert torch.equal(draw(generator), expected)


def test_clone_has_a_state_of_its_own(generator: torch.Generator) -> None:
    draw(generator)
    clone = generator.clone_state() if hasattr(generator, "clone_state") else copy.copy(generator)
    assert clone is not generator
    expected = draw(generator)
    assert torch.equal(draw(clone), expected)
    assert clone.get_offset() == generator.get_offset()


def test_graphsafe_state_is_shared(generator: torch.Generator) -> None:
    shared = generator.graphsafe_get_state()
    draw(generator)
    assert shared.get_offset() == generator.get_offset() == 8
    other = torch.Generator("neuron")
    other.graphsafe_set_state(shared)
    draw(other)
    assert generator.get_offset() == 16


def test_graphsafe_state_of_another_device_type_is_refused(generator: torch.Generator) -> None:
    with pytest.raises((RuntimeError, TypeError)):
        generator.graphsafe_set_state(torch.Generator("cpu"))


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (torch.zeros(16), TypeError, "must be a torch.ByteTensor on the CPU"),
        (torch.zeros(15, dtype=torch.uint8), RuntimeError, "is 16 bytes"),
        (torch.Generator("cpu").get_state(), RuntimeError, "does not fit"),
        (torch.zeros(32, dtype=torch.uint8)[::2], RuntimeError, "contiguous"),
        (torch.tensor([0] * 8 + [1] + [0] * 7, dtype=torch.uint8), RuntimeError, "multiple of 4"),
        (torch.tensor([0] * 15 + [0x80], dtype=torch.uint8), RuntimeError, "below 2\\^62"),
    ],
)
def test_unusable_state_is_refused_and_changes_nothing(
    generator: torch.Generator, state: torch.Tensor, error: type[Exception], message: str
) -> None:
    draw(generator)
    before = generator.get_state()
    with pytest.raises(error, match=message):
        generator.set_state(state)
    assert torch.equal(generator.get_state(), before)


def test_state_on_the_device_is_refused(generator: torch.Generator) -> None:
    with pytest.raises(TypeError, match=r"on the CPU, but got a tensor of .* on neuron:0"):
        generator.set_state(generator.get_state().to("neuron"))


@pytest.mark.parametrize(("offset", "message"), [(2, "multiple of 4"), (2**62, "below 2\\^62")])
def test_unusable_offset_is_refused(generator: torch.Generator, offset: int, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        generator.set_offset(offset)


def test_exhausted_stream_raises(generator: torch.Generator) -> None:
    generator.set_offset(2**62 - 8)
    draw(generator, 4)
    with pytest.raises(RuntimeError, match="used up the 2\\^62 positions of seed 1234"):
        draw(generator, 8)


@pytest.mark.parametrize(("count", "advance"), [(0, 0), (1, 4), (4, 4), (5, 8), (1000, 1000)])
def test_offset_advances_by_the_elements_rounded_up_to_four(
    generator: torch.Generator, count: int, advance: int
) -> None:
    draw(generator, count)
    assert generator.get_offset() == advance


def test_default_generators_start_from_entropy() -> None:
    code = "import torch, torch_trainium; print(torch.neuron.initial_seed())"
    assert output_of(code) != output_of(code)


def test_draws_at_exit_are_safe() -> None:
    code = (
        "import atexit, torch, torch_trainium\n"
        "atexit.register(lambda: torch.randn(3, device='neuron'))\n"
        "torch.randn(3, device='neuron')\n"
        "print('drawn')"
    )
    assert output_of(code) == "drawn"
