"""The two training scripts: same numbers as on the CPU, exact resume, complete results."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from matplotlib.image import imread

from tests.examples.example_process import Run, attempt, run


@dataclass(frozen=True)
class Script:
    """A script shortened to `length` of its `unit`, and an aim no run can reach."""

    name: str
    unit: str
    length: int
    steps: int
    options: tuple[object, ...]
    impossible: tuple[object, ...]


DIGITS = Script(
    name="train_digits.py",
    unit="--epochs",
    length=2,
    steps=2 * 6,
    options=("--batch", 256),
    impossible=("--require-accuracy", 1.01),
)
GPT = Script(
    name="train_gpt.py",
    unit="--steps",
    length=6,
    steps=6,
    options=("--batch", 4, "--context", 64, "--layers", 2, "--width", 64),
    impossible=("--require-bits", 0.01),
)

Train = Callable[..., Run]


@pytest.fixture(scope="module", params=[DIGITS, GPT], ids=["digits", "gpt"])
def script(request: pytest.FixtureRequest) -> Script:
    chosen: Script = request.param
    return chosen


@pytest.fixture(scope="module")
def folder(script: Script, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(Path(script.name).stem)


@pytest.fixture(scope="module")
def on_neuron(script: Script, folder: Path) -> Run:
    length = (script.unit, script.length)
    return run(script.name, folder / "neuron", "--device", "neuron", *script.options, *length)


def weights(of: Run) -> dict[str, torch.Tensor]:
    state = torch.load(of.out / "checkpoint.pt", map_location="cpu", weights_only=True)
    model: dict[str, torch.Tensor] = state["model"]
    return model


def test_every_loss_is_bit_identical_to_the_cpu(
    script: Script, folder: Path, on_neuron: Run
) -> None:
    length = (script.unit, script.length)
    on_cpu = run(script.name, folder / "cpu", "--device", "cpu", *script.options, *length)
    assert len(on_cpu.losses) == script.steps
    assert on_neuron.losses == on_cpu.losses
    for name, weight in weights(on_cpu).items():
        assert torch.equal(weights(on_neuron)[name], weight), name


def test_resumed_run_equals_continuous_run(script: Script, folder: Path, on_neuron: Run) -> None:
    options = ("--device", "neuron", *script.options, script.unit)
    first = run(script.name, folder / "resumed", *options, script.length // 2)
    assert len(first.losses) == script.steps // 2
    second = run(script.name, folder / "resumed", *options, script.length, "--resume")
    assert second.losses == on_neuron.losses
    for name, weight in weights(on_neuron).items():
        assert torch.equal(weights(second)[name], weight), name


def test_bf16_autocast_follows_the_fp32_losses(
    script: Script, folder: Path, on_neuron: Run
) -> None:
    options = ("--device", "neuron", *script.options, script.unit, script.length)
    mixed = run(script.name, folder / "bf16", *options, "--amp", "bf16")
    assert mixed.losses != on_neuron.losses
    assert mixed.losses == pytest.approx(on_neuron.losses, rel=0.05)


def test_loss_curve_is_a_picture_of_a_line(on_neuron: Run) -> None:
    pixels = imread(on_neuron.out / "loss.png")
    height, width = pixels.shape[:2]
    assert (height, width) >= (400, 600)
    # Matplotlib's first line colour; nothing else in the figure has it.
    blue_line = abs(pixels[..., :3] - (0.122, 0.467, 0.706)).max(axis=-1) < 0.01
    assert blue_line.any(axis=0).mean() > 0.5


def test_summary_tells_loss_memory_and_operators(script: Script, on_neuron: Run) -> None:
    summary = on_neuron.summary
    weight_bytes = sum(weight.nbytes for weight in weights(on_neuron).values())
    assert summary["device"] == "neuron"
    assert summary["steps"] == script.steps
    assert summary["final_loss"] == on_neuron.losses[-1]
    # Weights, gradients and AdamW's two moments are alive together.
    assert summary["device_peak_mib"] * 2**20 > 4 * weight_bytes
    assert summary["ops_executed"] > 20 * script.steps
    assert summary["distinct_ops"] > 10
    for name, value in summary.items():
        assert f"{name.replace('_', ' ')} " in on_neuron.stdout
        assert str(value) in on_neuron.stdout


def test_missed_aim_exits_with_status_1(script: Script, folder: Path, on_neuron: Run) -> None:
    options = ("--device", "neuron", *script.options, script.unit, script.length)
    missed = attempt(script.name, on_neuron.out, *options, "--resume", *script.impossible)
    assert missed.exit_code == 1
    assert str(script.impossible[0]) in missed.stderr


def test_resume_without_checkpoint_says_what_is_missing(tmp_path: Path) -> None:
    done = attempt(GPT.name, tmp_path / "out", "--resume")
    assert done.exit_code == 1
    assert "there is no checkpoint" in done.stderr
    assert "Traceback" not in done.stderr
