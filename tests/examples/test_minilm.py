"""A real pretrained model, from the package that ships it, in an unmodified Trainer."""

from pathlib import Path

import pytest

from tests.examples.example_process import Run, run

pytestmark = pytest.mark.hf


@pytest.fixture(scope="module")
def fine_tuned(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("minilm") / "out"
    return run(
        "finetune_minilm.py", out, "--device", "neuron", "--amp", "bf16", "--require-accuracy", 0.8
    )


def test_embeddings_equal_the_cpus(fine_tuned: Run) -> None:
    assert fine_tuned.summary["embedding_difference_from_cpu"] <= 1e-5


def test_trainer_trains_on_neuron(fine_tuned: Run) -> None:
    summary = fine_tuned.summary
    assert summary["model_device"] == "neuron:0"
    assert summary["ops_executed"] > 500 * summary["steps"]  # six layers, forward and backward


def test_fine_tuning_learns_the_task(fine_tuned: Run) -> None:
    summary = fine_tuned.summary
    assert summary["accuracy_before"] < 0.4
    assert summary["accuracy_after"] >= 0.8
    losses = fine_tuned.losses
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])


def test_tuned_model_loads_on_the_cpu(fine_tuned: Run) -> None:
    import transformers

    folder: Path = fine_tuned.out / "model"
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    assert model.device.type == "cpu"
    assert model.config.num_labels == 6
