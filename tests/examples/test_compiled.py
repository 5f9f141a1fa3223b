"""The training scripts as compiled programs: no fallback, and a hundred losses as the CPU's."""

from pathlib import Path

import pytest

from tests.examples.example_process import run

SMALL_GPT = ("--batch", 8, "--context", 64, "--layers", 2, "--width", 64)


@pytest.mark.parametrize(
    ("script", "options"),
    [("train_digits.py", ("--epochs", 5)), ("train_gpt.py", ("--steps", 100, *SMALL_GPT))],
    ids=["digits", "gpt"],
)
def test_losses_are_the_cpus_for_a_hundred_steps(
    script: str, options: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_TRAINIUM_EAGER", "compiled")
    monkeypatch.setenv("TORCH_TRAINIUM_FALLBACK", "error")
    expected = run(script, tmp_path / "cpu", "--device", "cpu", *options).losses
    actual = run(script, tmp_path / "neuron", "--device", "neuron", *options).losses
    assert len(actual) >= 100
    assert actual[:100] == pytest.approx(expected[:100], rel=1e-4)
