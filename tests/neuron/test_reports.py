"""Traces and reports of real programs: training steps of a transformer and of a CNN."""

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
import torch
from torch import nn

from torch_trainium.neuron.timeline_view import units
from torch_trainium.neuron.timeline_view.elapsed import core_times, elapsed
from torch_trainium.neuron.timeline_view.totals import by_line, by_module, by_operator


class Cells(HTMLParser):
    """The texts of every table's rows by the table's id, and of every element with an id."""

    def __init__(self):
        super().__init__()
        self.tables, self.texts = {}, {}
        self._table, self._open = None, []

    def handle_starttag(self, tag, attrs):
        identity = dict(attrs).get("id")
        if tag == "table":
            self._table = self.tables.setdefault(identity, [])
        elif tag == "tr":
            self._table.append([])
        elif tag == "td":
            self._table[-1].append("")
        if tag not in ("meta", "link"):
            self._open.append((tag, identity))

    def handle_endtag(self, tag):
        self._open.pop()

    def handle_data(self, data):
        for tag, identity in self._open:
            if tag == "td":
                self._table[-1][-1] += data
            elif identity:
                self.texts[identity] = self.texts.get(identity, "") + data


def read(path):
    cells = Cells()
    cells.feed(path.read_text())
    return cells


def rows(cells, table):
    return [row for row in cells.tables[table] if row]


@pytest.fixture(scope="module")
def transformer_step():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to("neuron")
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(4, 32, 64, device="neuron")

    def step():
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    step()  # the optimizer's state
    return step


def scope_of(step, steps=1):
    torch.neuron.synchronize()
    with torch.neuron.timeline() as scope:
        for _ in range(steps):
            step()
    return scope


def test_report_has_the_numbers_of_the_scope(transformer_step, tmp_path):
    scope = scope_of(transformer_step, steps=2)
    path = torch.neuron.report(tmp_path / "report.html", scope, title="encoder.py", steps=2)
    cells, items = read(path), elapsed(scope.snapshot)
    assert cells.texts["step-time"] == (
        "Step time" + units.time(scope.snapshot.duration_ps // 2) + "mean of 2 steps"
    )
    shown = {row[0]: row[4] for row in rows(cells, "operator-table")}
    counted = {name: units.count(total.calls) for name, total in by_operator(items).items()}
    assert shown == counted
    assert {name: total.calls for name, total in scope.operators.items()} == {
        name: int(calls.replace(",", "")) for name, calls in counted.items()
    }


def test_report_finds_the_modules_of_the_model(transformer_step, tmp_path):
    scope = scope_of(transformer_step)
    encoder = by_module(elapsed(scope.snapshot)).children["TransformerEncoder"]
    layers = encoder.children["layers"].children
    assert list(layers) == ["0", "1"]
    for layer in layers.values():
        assert {"self_attn", "linear1", "linear2", "norm1", "norm2"} <= {*layer.children}
        for module in layer.children.values():
            assert 0 <= module.total.backward_ps <= module.total.elapsed_ps
        assert 0.3 < layer.total.backward_ps / layer.total.elapsed_ps < 0.8
    path = torch.neuron.report(tmp_path / "report.html", scope)
    names = [row[0] for row in rows(read(path), "module-table")]
    assert names[:3] == ["TransformerEncoder", "layers", "0"]


def test_report_names_lines_of_the_program(transformer_step, tmp_path):
    scope = scope_of(transformer_step)
    here = re.compile(r"/test_reports\.py:\d+ \(step\)$")
    assert all(here.search(r.line) for r in scope.snapshot.records if not r.is_backward)
    lines = by_line(elapsed(scope.snapshot))
    forward = next(line for line in lines if f":{line_of('model(batch)')} " in line)
    assert lines[forward].backward_ps > 0
    path = torch.neuron.report(tmp_path / "report.html", scope)
    shown = [row[0] for row in rows(read(path), "line-table")]
    assert forward.removeprefix(f"{Path(__file__).parent}/") in shown


def line_of(text):
    """The number of the first line of this file that holds the text."""
    source = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(source, start=1) if text in line)


def test_small_eager_steps_are_launch_bound(transformer_step, tmp_path):
    path = torch.neuron.report(tmp_path / "report.html", scope_of(transformer_step))
    assert read(path).texts["verdict"].startswith("Launch-bound: ")


def test_large_products_are_bound_by_the_tensor_engine(tmp_path):
    a = torch.zeros(4096, 4096, device="neuron", dtype=torch.bfloat16)
    scope = scope_of(lambda: [a @ a for _ in range(3)])
    path = torch.neuron.report(tmp_path / "report.html", scope)
    cells = read(path)
    assert cells.texts["verdict"].startswith("Device-bound")
    assert "the tensor engine" in cells.texts["verdict"]
    assert re.match(r"Achieved1\d\d TFLOP/s", cells.texts["flops"])


def test_same_program_gives_the_same_page_and_trace(transformer_step, tmp_path):
    for name in ("a", "b"):
        scope = scope_of(transformer_step)
        torch.neuron.report(tmp_path / f"{name}.html", scope, title="encoder.py")
        scope.export_chrome_trace(tmp_path / f"{name}.json")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_trace_of_a_cnn_has_all_its_work(tmp_path):
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    model = model.to("neuron")
    images = torch.randn(8, 1, 12, 12)

    def step():
        nn.functional.cross_entropy(
            model(images.to("neuron")), torch.zeros(8, dtype=torch.long, device="neuron")
        ).backward()

    step()
    scope = scope_of(step)
    scope.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    on_stream = [e["name"] for e in events if e["ph"] == "X" and names[e["tid"]] == "stream 0"]
    assert on_stream == [record.operator for record in scope.snapshot.records]
    assert "copies from the host" in names.values()
    assert "aten::convolution_backward" in on_stream or any("conv" in n for n in on_stream)


def on_many_queues(seed):
    """Products, copies in and out and between devices, on two streams of two devices."""
    random = Random(seed)
    streams = [torch.Stream(device) for device in ("neuron:0", "neuron:0", "neuron:1", "neuron:1")]
    matrices = [torch.ones(256, 256, device=f"neuron:{index}") for index in range(2)]
    on_host = torch.ones(256, 256).pin_memory()
    for _ in range(40):
        stream = random.choice(streams)
        matrix = matrices[stream.device.index]
        with stream:
            match random.randrange(5):
                case 0 | 1:
                    matrix @ matrix
                case 2:
                    on_host.to(stream.device, non_blocking=True)
                case 3:
                    on_host.copy_(matrix, non_blocking=True)
                case 4:
                    matrix.copy_(matrices[1 - stream.device.index], non_blocking=True)


@pytest.mark.parametrize("seed", range(5))
def test_work_of_a_row_never_overlaps(tmp_path, seed):
    scope = scope_of(lambda: on_many_queues(seed))
    scope.export_chrome_trace(tmp_path / "trace.json")
    slices = {}
    for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]:
        if event["ph"] == "X":
            slices.setdefault((event["pid"], event["tid"]), []).append(event)
    assert {device for device, _ in slices} == {0, 1}
    assert len(slices) >= 12
    for row in slices.values():
        row.sort(key=lambda e: (e["ts"], e["dur"]))
        for before, after in pairwise(row):
            assert before["ts"] + before["dur"] <= after["ts"] + 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_elapsed_times_of_many_queues_add_up(seed):
    snapshot = scope_of(lambda: on_many_queues(seed)).snapshot
    items = elapsed(snapshot)
    for device, time in core_times(snapshot).items():
        own_ps = sum(item.total_ps for item in items if item.record.device == device)
        assert own_ps + time.tail_ps == time.span_ps
        assert time.tail_ps >= 0


def test_fallbacks_are_listed_with_their_lines(tmp_path):
    matrix = torch.eye(4, device="neuron")
    scope = scope_of(lambda: torch.linalg.eigh(matrix))
    cells = read(torch.neuron.report(tmp_path / "report.html", scope))
    listed = {row[0]: row[4] for row in rows(cells, "fallback-table")}
    assert list(listed) == [*scope.snapshot.fallbacks]
    assert f"test_reports.py:{line_of('torch.linalg.eigh(matrix)')} (<lambda>)" in str(listed)


def test_scope_must_be_closed():
    with torch.neuron.timeline() as scope, pytest.raises(RuntimeError, match="outside a scope"):
        torch.neuron.report("report.html", scope)
    with pytest.raises(RuntimeError, match=r"with torch\.neuron\.timeline\(\) as scope"):
        torch.neuron.timeline().export_chrome_trace("trace.json")


def test_steps_must_be_positive(tmp_path):
    scope = scope_of(lambda: torch.ones(1, device="neuron"))
    with pytest.raises(ValueError, match="steps=0"):
        torch.neuron.report(tmp_path / "report.html", scope, steps=0)
