"""Training: LoRA fine-tuning of decoders, and small image classifiers over an epoch."""

from accuracy import programs
from accuracy.kinds.stacks import LAZY, cores_per_chip, target
from accuracy.measure import Measure
from accuracy.models.configs import find_decoder
from accuracy.models.vision import DATASETS
from accuracy.prediction import Prediction
from accuracy.rows import Row
from accuracy.workload import HostRead, Launched, Sequential, Transfer, graph


def predict(row: Row) -> Prediction | None:
    """The workload of a training row; None if its program is not defined here."""
    if "lora" in row.word("method").lower():
        return _adapters(row)
    dataset = next((name for name in DATASETS if name in row.text), None)
    kind = next((kind for kind in ("vit", "cnn", "mlp") if kind in row.text), None)
    return _epoch(row, dataset, kind) if dataset and kind else None


def _adapters(row: Row) -> Prediction | None:
    config = find_decoder(row.workload) or find_decoder(row.word("model"))
    if config is None or config.experts is not None or config.recurrence is not None:
        return None
    rank = int("".join(filter(str.isdigit, row.word("method"))) or 16)
    ranks, tokens = row.count("tp", default=1), row.count("seq", default=2048)
    batch, micro_batches = row.count("micro_batch", default=1), row.count("grad_accum", default=1)
    recompute = row.params.get("recompute") is True
    micro = programs.adapter_micro_batch(config, ranks, rank, batch, tokens, recompute)
    update = programs.adapter_update(config, ranks, rank)
    cores = cores_per_chip(row)
    return Prediction(
        row=row,
        target=target(row, LAZY),
        family="training",
        workload=Sequential(
            ((micro_batches, Launched(graph(micro, cores))), (1, Launched(graph(update, cores))))
        ),
        measure=Measure(row.unit, batch * tokens * micro_batches),
        configuration=(row.id,),
    )


def _epoch(row: Row, dataset: str, kind: str) -> Prediction:
    images, batch = DATASETS[dataset], row.count("batch", "micro_batch", default=128)
    steps = row.count("samples", default=images.train_count) // batch
    run = programs.classifier_step(dataset, kind, batch)
    step = (Transfer(batch * images.values * 4), Launched(graph(run)), HostRead())
    per_epoch = row.unit == "s/epoch"
    return Prediction(
        row=row,
        target=target(row, LAZY),
        family="training",
        workload=Sequential(tuple((steps if per_epoch else 1, part) for part in step)),
        measure=Measure(row.unit, batch),
        configuration=(row.id,),
    )
