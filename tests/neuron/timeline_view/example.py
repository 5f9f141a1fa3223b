"""Made-up timelines: a few records by hand, and a small transformer's training steps."""

from collections.abc import Iterator

from torch_trainium.neuron.timeline_view.records import (
    ENGINES,
    Fallback,
    Span,
    TimelineSnapshot,
    WorkRecord,
)
from torch_trainium.neuron.timeline_view.roofline import Peaks

US = 10**6  # picoseconds
PEAKS = Peaks({"bf16": 157.3e12, "fp32": 40e12}, hbm_bytes_per_s=716e9)


def work(operator, start_us, end_us, *, issued_us=None, device=0, engines=None, **fields):
    """A record with its times in microseconds; issued when it starts unless said otherwise."""
    busy_us = {"vector": end_us - start_us} if engines is None else engines
    return WorkRecord(
        operator=operator,
        cost_class=fields.pop("cost_class", "pointwise"),
        device=device,
        stream=fields.pop("stream", 0),
        queue=fields.pop("queue", "compute"),
        issued_ps=round((start_us if issued_us is None else issued_us) * US),
        start_ps=round(start_us * US),
        end_ps=round(end_us * US),
        engine_ps=tuple(round(busy_us.get(engine, 0) * US) for engine in ENGINES),
        **fields,
    )


def snapshot(records, *, end_us=None, start_us=0, **fields):
    """A snapshot of the records; every device's span ends at `end_us`, or with its last work."""
    last_us = {record.device: 0 for record in records}
    for record in records:
        last_us[record.device] = max(last_us[record.device], record.end_ps / US)
    spans = {
        device: Span(round(start_us * US), round((last if end_us is None else end_us) * US))
        for device, last in last_us.items()
    }
    return TimelineSnapshot(
        "trn2.3xlarge", "trn2", 2, "torchneuron-2.33", tuple(records), spans, **fields
    )


# Module, operator, cost class, line, busy microseconds by engine, FLOPs, bytes: forward only.
_BLOCK = (
    ("norm1", "aten::native_layer_norm", "normalization", 31, {"vector": 6, "dma": 5}, 2e7, 6e6),
    ("attention.qkv", "aten::mm", "matmul", 32, {"tensor": 48, "dma": 30}, 6.4e9, 2e7),
    ("attention", "aten::bmm", "matmul", 34, {"tensor": 21, "dma": 25}, 2.1e9, 1.6e7),
    (
        "attention",
        "aten::_softmax",
        "softmax",
        35,
        {"scalar": 19, "vector": 16, "dma": 9},
        1e8,
        6e6,
    ),
    ("attention.out", "aten::mm", "matmul", 36, {"tensor": 17, "dma": 11}, 2.1e9, 8e6),
    ("norm2", "aten::native_layer_norm", "normalization", 38, {"vector": 6, "dma": 5}, 2e7, 6e6),
    ("mlp.up", "aten::mm", "matmul", 39, {"tensor": 62, "dma": 38}, 8.6e9, 2.6e7),
    ("mlp", "aten::gelu", "activation", 40, {"scalar": 23, "dma": 12}, 1e8, 1.2e7),
    ("mlp.down", "aten::mm", "matmul", 41, {"tensor": 62, "dma": 38}, 8.6e9, 2.6e7),
    ("", "aten::add.Tensor", "pointwise", 42, {"vector": 5, "dma": 5}, 1e6, 6e6),
)


def transformer(*, layers=4, steps=2, devices=1, issue_us=80.0, launch_us=12.0):
    """Eager training: the host issues one operator at a time, the device runs them in order."""
    records = [
        record
        for device in range(devices)
        for record in _training(device, layers, steps, issue_us, launch_us)
    ]
    fallbacks = {
        "aten::linalg_qr": Fallback(
            2, 1400 * US, ("/home/me/train.py:77 (orthogonal_init)",), "it has no lowering"
        ),
        "aten::special_bessel_j0": Fallback(
            4, 310 * US, ("/home/me/train.py:12 (window)", "/home/me/train.py:14 (window)")
        ),
    }
    return snapshot(
        records,
        end_us=max(r.end_ps for r in records) / US + 150,
        fallbacks=fallbacks,
        issue_ps=round(issue_us * US),
    )


def _training(device, layers, steps, issue_us, launch_us):
    issued = device * 7.0
    free = 0.0
    allocated = 420 << 20
    for index, (fields, engines) in enumerate(_step(layers, steps)):
        issued += issue_us
        start = max(issued + launch_us, free)
        free = start + max(engines.values())
        allocated += (-6 if fields["is_backward"] else 6) << 20
        bound = max(engines, key=engines.get)
        yield work(
            start_us=start,
            end_us=free,
            issued_us=issued,
            device=device,
            engines=engines,
            bound="launch" if max(engines.values()) < issue_us else bound,
            allocated_bytes=allocated + (index % 3 << 20),
            **fields,
        )


def _step(layers, steps) -> Iterator[tuple[dict, dict]]:
    for _ in range(steps):
        yield (
            {
                "operator": "copy",
                "cost_class": "transfer",
                "queue": "copy_in",
                "line": "/home/me/train.py:88 (main)",
                "hbm_bytes": 1 << 20,
                "is_backward": False,
            },
            {"dma": 90},
        )
        for is_backward in (False, True):
            order = reversed(range(layers)) if is_backward else range(layers)
            for layer in order:
                yield from _block(layer, is_backward)
        for _ in range(layers):
            yield (
                {
                    "operator": "aten::_foreach_addcdiv_.ScalarList",
                    "cost_class": "optimizer",
                    "line": "/home/me/train.py:93 (main)",
                    "is_backward": False,
                    "hbm_bytes": 90_000_000,
                },
                {"vector": 110, "dma": 130},
            )


def _block(layer, is_backward):
    rows = reversed(_BLOCK) if is_backward else _BLOCK
    for module, operator, cost_class, line, busy_us, flops, moved in rows:
        for _ in range(2 if is_backward and operator == "aten::mm" else 1):
            yield (
                {
                    "operator": operator,
                    "cost_class": cost_class,
                    "module": f"layers.{layer}.{module}".rstrip("."),
                    "line": f"/home/me/model.py:{line} (forward)",
                    "flops": int(flops),
                    "hbm_bytes": int(moved),
                    "is_backward": is_backward,
                },
                busy_us,
            )
