"""Every race between streams is reported, once and with its lines."""

import re
import threading
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.python_process import run_python
from torch_trainium.errors import StreamRaceError, StreamRaceWarning
from torch_trainium.neuron.stream_sanitizer import StreamSanitizer

SIZE = 4096


@pytest.fixture
def sanitizer():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StreamRaceWarning)
        with torch.neuron.sanitizer() as sanitizer:
            yield sanitizer


@pytest.fixture
def side() -> torch.neuron.Stream:
    return torch.neuron.Stream()


def kinds(sanitizer: StreamSanitizer) -> list[str]:
    return [race.kind for race in sanitizer.races]


def test_read_without_wait(sanitizer, side) -> None:
    x = torch.ones(SIZE, device="neuron")
    with torch.neuron.stream(side):
        x * 2
    (race,) = sanitizer.races
    assert race.kind == "use_without_wait"
    assert race.later.operator == "aten::mul.Tensor"
    assert race.later.stream == side.stream_id
    assert not race.later.writes
    assert race.later.sizes == (SIZE,)
    assert race.later.dtype == "Float"
    assert race.earlier.operator == "aten::fill_.Scalar"
    assert race.earlier.stream == 0
    assert race.earlier.writes


def test_message_names_both_lines_and_the_remedy(sanitizer, side) -> None:
    x = torch.ones(SIZE, device="neuron")
    with torch.neuron.stream(side):
        x * 2
    message = str(sanitizer.races[0])
    assert len(re.findall(r"test_stream_sanitizer\.py:\d+ \(test_message", message)) == 2
    assert f"stream {side.stream_id} of neuron:0 reads Float[{SIZE}]" in message
    assert f"the default stream of neuron:0, which writes Float[{SIZE}]" in message
    assert f"stream_{side.stream_id}.wait_stream(default_stream)" in message


def test_write_to_what_another_stream_reads(sanitizer, side) -> None:
    x = torch.ones(SIZE, device="neuron")
    side.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(side):
        x * 2
    x.add_(1)
    (race,) = sanitizer.races
    assert race.kind == "use_without_wait"
    assert (race.later.writes, race.earlier.writes) == (True, False)
    assert race.later.stream == 0


def test_result_used_without_wait(sanitizer, side) -> None:
    x = torch.ones(SIZE, device="neuron")
    side.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(side):
        y = x.exp()
    y + 1
    (race,) = sanitizer.races
    assert race.earlier.operator == "aten::exp"
    assert race.earlier.span_bytes == 4 * SIZE


def test_two_reads_are_no_race(sanitizer, side) -> None:
    x = torch.ones(SIZE, device="neuron")
    side.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(side):
        x * 2
    x * 3
    assert sanitizer.races == []


def test_wait_before_the_write_does_not_order_it(sanitizer, side) -> None:
    x = torch.empty(SIZE, device="neuron")
    side.wait_stream(torch.neuron.current_stream())
    x.fill_(1)
    with torch.neuron.stream(side):
        x * 2
    assert kinds(sanitizer) == ["use_without_wait"]


@pytest.mark.parametrize(
    "wait",
    [
        lambda side: side.wait_stream(torch.neuron.current_stream()),
        lambda side: side.wait_event(torch.neuron.current_stream().record_event()),
        lambda side: torch.neuron.current_stream().record_event().synchronize(),
        lambda side: torch.neuron.current_stream().synchronize(),
        lambda side: torch.neuron.synchronize(),
        lambda side: torch.accelerator.synchronize(),
        lambda side: torch.ones(1, device="neuron").item(),
        lambda side: torch.ones(1, device="neuron").cpu(),
    ],
)
def test_wait_in_between_orders(sanitizer, side, wait) -> None:
    x = torch.ones(SIZE, device="neuron")
    wait(side)
    with torch.neuron.stream(side):
        x * 2
    assert sanitizer.races == []


def test_polling_until_done_orders(sanitizer, side) -> None:
    x = torch.ones(SIZE, device="neuron")
    event = torch.neuron.current_stream().record_event()
    while not event.query():
        pass
    with torch.neuron.stream(side):
        x * 2
    assert sanitizer.races == []


def test_waits_add_up_over_streams(sanitizer, side) -> None:
    other = torch.neuron.Stream()
    x = torch.ones(SIZE, device="neuron")
    other.wait_stream(torch.neuron.current_stream())
    side.wait_stream(other)
    with torch.neuron.stream(side):
        x * 2
    assert sanitizer.races == []


def test_event_orders_what_came_before_its_last_record(sanitizer, side) -> None:
    x = torch.ones(SIZE, device="neuron")
    event = torch.neuron.current_stream().record_event()
    x.add_(1)
    side.wait_event(event)
    with torch.neuron.stream(side):
        x * 2
    assert sanitizer.races[0].earlier.operator == "aten::add_.Tensor"
    assert len(sanitizer.races) == 1


def test_stream_of_another_device(sanitizer) -> None:
    x = torch.ones(SIZE, device="neuron:0")
    with torch.neuron.stream(torch.neuron.Stream(0)):
        x.to("neuron:1")
    (race,) = sanitizer.races
    assert race.earlier.stream == 0


SLICES = st.tuples(
    *2 * (st.builds(slice, st.integers(0, 6), st.integers(7, 8), st.integers(1, 4)),)
) | st.tuples(*2 * (st.builds(slice, st.integers(0, 3), st.integers(4, 8)),))
VIEWS = st.tuples(SLICES, st.booleans())


@settings(max_examples=100, deadline=None)
@given(first=VIEWS, second=VIEWS)
def test_views_race_exactly_where_they_share_elements(first, second) -> None:
    def cut(base: torch.Tensor, view: tuple[tuple[slice, slice], bool]) -> torch.Tensor:
        slices, is_transposed = view
        return (base.t() if is_transposed else base)[slices]

    side = torch.neuron.Stream()
    base = torch.empty(8, 8, dtype=torch.int16, device="neuron")
    mask = torch.zeros(2, 8, 8, dtype=torch.bool)
    cut(mask[0], first).fill_(True)
    cut(mask[1], second).fill_(True)
    with warnings.catch_warnings(), torch.neuron.sanitizer() as sanitizer:
        warnings.simplefilter("ignore", StreamRaceWarning)
        cut(base, first).fill_(1)
        with torch.neuron.stream(side):
            cut(base, second).fill_(2)
        torch.neuron.synchronize()
    assert bool(sanitizer.races) == bool((mask[0] & mask[1]).any())


def test_memory_reused_while_another_stream_reads_it(sanitizer, side) -> None:
    x = torch.ones(SIZE, device="neuron")
    side.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(side):
        x * 2
    address = x.data_ptr()
    del x
    y = torch.zeros(SIZE, device="neuron")
    assert y.data_ptr() == address
    (race,) = sanitizer.races
    assert race.kind == "missing_record_stream"
    assert race.later.stream == 0
    assert race.earlier.operator == "aten::mul.Tensor"
    assert f"record_stream(stream_{side.stream_id})" in str(race)


def test_piece_of_freed_memory(sanitizer, side) -> None:
    x = torch.ones(16 * SIZE, device="neuron")
    side.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(side):
        x[8 * SIZE :] * 2
    address = x.data_ptr()
    del x
    low = torch.zeros(SIZE, device="neuron")
    assert low.data_ptr() == address
    assert sanitizer.races == []
    rest = [torch.zeros(SIZE, device="neuron") for _ in range(15)]
    assert any(address < each.data_ptr() < address + 64 * SIZE for each in rest)
    assert set(kinds(sanitizer)) == {"missing_record_stream"}


@pytest.mark.parametrize(
    "guard",
    [
        lambda x, side: x.record_stream(side),
        lambda x, side: torch.neuron.current_stream().wait_stream(side),
        lambda x, side: side.synchronize(),
    ],
)
def test_guarded_free(sanitizer, side, guard) -> None:
    x = torch.ones(SIZE, device="neuron")
    side.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(side):
        x * 2
    guard(x, side)
    del x
    torch.zeros(SIZE, device="neuron")
    assert sanitizer.races == []


def test_record_stream_before_the_first_use(sanitizer, side) -> None:
    x = torch.empty(SIZE, device="neuron")
    x.record_stream(side)
    with torch.neuron.stream(side):
        x.fill_(2)
    del x
    torch.zeros(SIZE, device="neuron")
    assert sanitizer.races == []


def test_wait_after_the_free_and_before_the_reuse(sanitizer, side) -> None:
    x = torch.ones(SIZE, device="neuron")
    side.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(side):
        x * 2
    del x
    torch.neuron.current_stream().wait_stream(side)
    torch.zeros(SIZE, device="neuron")
    assert sanitizer.races == []


def test_memory_given_back_to_the_device_is_clean(sanitizer, side) -> None:
    x = torch.ones(1 << 22, device="neuron")
    side.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(side):
        x * 2
    del x
    torch.neuron.empty_cache()
    torch.zeros(1 << 22, device="neuron")
    assert sanitizer.races == []


def test_reused_memory_first_used_on_another_stream(sanitizer, side) -> None:
    x = torch.ones(SIZE, device="neuron")
    address = x.data_ptr()
    del x
    y = torch.empty(SIZE, device="neuron")
    assert y.data_ptr() == address
    with torch.neuron.stream(side):
        y.fill_(1)
    assert kinds(sanitizer) == ["reuse_without_wait"]


def in_flight(x: torch.Tensor) -> torch.Tensor:
    return x.to("cpu", non_blocking=True)


READS = {
    "aten::sum.dim_IntList": lambda x: x.sum(),
    "aten::copy_": lambda x: x.clone(),
    "aten::_local_scalar_dense": lambda x: x[3].item(),
    "aten::resolve_conj": lambda x: x.numpy(),
    "aten::equal": lambda x: torch.equal(x, x),
    "aten::cat": lambda x: torch.cat([torch.zeros(1), x]),
    "aten::index.Tensor": lambda x: x[torch.tensor([0])],
}


@pytest.mark.parametrize("operator", READS)
def test_host_reads_copy_in_flight(sanitizer, operator) -> None:
    host = in_flight(torch.ones(SIZE, device="neuron"))
    READS[operator](host)
    race = sanitizer.races[0]
    assert race.kind == "early_host_access"
    assert race.later.operator == operator
    assert race.later.stream is None
    assert race.earlier.operator == "aten::copy_"
    assert re.search(r"test_stream_sanitizer\.py:\d+ \(in_flight\)", race.earlier.line)
    assert "default_stream.synchronize()" in str(race)


def test_host_number_of_a_device_operator_in_flight(sanitizer) -> None:
    host = in_flight(torch.ones((), device="neuron"))
    torch.ones(SIZE, device="neuron") * host
    assert kinds(sanitizer) == ["early_host_access"]


def test_host_writes_pinned_source_in_flight(sanitizer) -> None:
    host = torch.ones(SIZE).pin_memory()
    host.to("neuron", non_blocking=True)
    host.sum()
    assert sanitizer.races == []
    host.zero_()
    (race,) = sanitizer.races
    assert race.later.operator == "aten::zero_"
    assert (race.later.writes, race.earlier.writes) == (True, False)


def test_pageable_source_may_be_overwritten(sanitizer) -> None:
    host = torch.ones(SIZE)
    host.to("neuron", non_blocking=True)
    host.zero_()
    assert sanitizer.races == []


def test_copy_in_flight_is_read_by_another_stream(sanitizer, side) -> None:
    host = in_flight(torch.ones(SIZE, device="neuron"))
    with torch.neuron.stream(side):
        host.to("neuron", non_blocking=True)
    assert kinds(sanitizer) == ["use_without_wait"]


def test_copy_back_on_the_same_stream_is_ordered(sanitizer) -> None:
    host = in_flight(torch.ones(SIZE, device="neuron"))
    assert host.to("neuron", non_blocking=True).sum().item() == SIZE
    assert host.sum() == SIZE
    assert sanitizer.races == []


@pytest.mark.parametrize(
    "wait",
    [
        lambda: torch.neuron.current_stream().record_event().synchronize(),
        torch.neuron.synchronize,
        lambda: torch.neuron.current_stream().synchronize(),
    ],
)
def test_copy_awaited_by_the_host(sanitizer, wait) -> None:
    host = in_flight(torch.ones(SIZE, device="neuron"))
    wait()
    host.sum()
    host.numpy()
    host.zero_()
    assert sanitizer.races == []


def test_views_of_a_copy_in_flight_may_be_made(sanitizer) -> None:
    host = in_flight(torch.ones(SIZE, device="neuron"))
    host.view(2, -1)[0].unsqueeze(0).detach()
    assert host.is_pinned()
    torch.neuron.synchronize()
    assert sanitizer.races == []


def test_host_memory_used_again_is_clean(sanitizer) -> None:
    device = torch.ones(SIZE, device="neuron")
    for _ in range(20):
        torch.empty(SIZE).copy_(device, non_blocking=True)
        torch.zeros(SIZE).sum()
        in_flight(device)
        torch.zeros(SIZE, pin_memory=True).sum()
    assert sanitizer.races == []


def test_each_pair_of_lines_is_reported_once_and_counted(side) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.neuron.sanitizer() as sanitizer:
            for _ in range(5):
                x = torch.ones(SIZE, device="neuron")
                with torch.neuron.stream(side):
                    x * 2
                torch.neuron.synchronize()
    assert [each.category for each in caught] == [StreamRaceWarning]
    assert caught[0].filename == __file__
    assert (len(sanitizer.races), sanitizer.count) == (1, 5)


def test_error_mode_raises_in_the_operator(side) -> None:
    with torch.neuron.sanitizer(error=True):
        x = torch.ones(SIZE, device="neuron")
        with (
            torch.neuron.stream(side),
            pytest.raises(StreamRaceError, match="without waiting for the default stream"),
        ):
            x * 2
        side.wait_stream(torch.neuron.current_stream())
        with torch.neuron.stream(side):
            assert (x * 2).sum().item() == 2 * SIZE


def test_error_mode_raises_where_the_host_reads() -> None:
    with torch.neuron.sanitizer(error=True):
        host = in_flight(torch.ones(SIZE, device="neuron"))
        with pytest.raises(StreamRaceError, match="the host reads"):
            host.sum()
        torch.neuron.synchronize()
        assert host.sum() == SIZE


def test_error_mode_raises_from_the_backward_pass(side) -> None:
    class Unordered(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            with torch.neuron.stream(side):
                return grad * 2

    with torch.neuron.sanitizer(error=True):
        x = torch.ones(SIZE, device="neuron", requires_grad=True)
        with pytest.raises(StreamRaceError, match=r"\(backward\)"):
            Unordered.apply(x).sum().backward()


def test_warnings_may_be_errors(side) -> None:
    with warnings.catch_warnings(), torch.neuron.sanitizer():
        warnings.simplefilter("error", StreamRaceWarning)
        host = in_flight(torch.ones(SIZE, device="neuron"))
        with pytest.raises(StreamRaceWarning, match="the host reads"):
            host.sum()


def test_backward_operators_are_named_by_their_node(sanitizer, side) -> None:
    x = torch.ones(SIZE, device="neuron", requires_grad=True)
    x.exp().sum().backward()
    with torch.neuron.stream(side):
        x.grad * 2
    line = sanitizer.races[0].earlier.line
    assert line.startswith("backward pass (")
    assert f"at {__file__}:" in line


def test_only_one_at_a_time(sanitizer) -> None:
    with pytest.raises(RuntimeError, match="on already"), torch.neuron.sanitizer():
        pass


def test_unknown_check() -> None:
    with pytest.raises(ValueError, match="'streams'"):
        torch.neuron.sanitizer("memory")


def test_nothing_is_seen_once_closed(side) -> None:
    with torch.neuron.sanitizer() as sanitizer:
        x = torch.ones(SIZE, device="neuron")
    with torch.neuron.stream(side):
        x * 2
    assert sanitizer.count == 0


def test_threads_are_seen(sanitizer, side) -> None:
    x = torch.ones(SIZE, device="neuron")

    def use() -> None:
        with torch.neuron.stream(side):
            x * 2

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert kinds(sanitizer) == ["use_without_wait"]


RACE = """
import torch
x = torch.ones(64, device="neuron")
with torch.neuron.stream(torch.neuron.Stream()):
    x * 2
print("went on")
"""


def test_variable_warns_from_the_start() -> None:
    done = run_python(RACE, {"TORCH_TRAINIUM_SANITIZER": "streams"})
    assert done.returncode == 0, done.stderr
    assert "StreamRaceWarning: stream" in done.stderr
    assert "went on" in done.stdout


def test_variable_raises_from_the_start() -> None:
    done = run_python(RACE, {"TORCH_TRAINIUM_SANITIZER": "streams:error"})
    assert done.returncode == 1
    assert "StreamRaceError: stream" in done.stderr
    assert "went on" not in done.stdout


def test_variable_is_validated() -> None:
    done = run_python(RACE, {"TORCH_TRAINIUM_SANITIZER": "threads"})
    assert "streams:error" in done.stderr
    assert done.returncode != 0
