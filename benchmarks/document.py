"""Write docs/benchmarks.md from the JSON in results/."""

import json
from pathlib import Path
from typing import Any

from results import RESULTS

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"

HEAD = """# Benchmarks

Written by `python benchmarks/document.py` from `benchmarks/results/`; do not edit.

The device is emulated: what runs on `neuron` is PyTorch's own CPU kernels on emulated device
memory. The ratios say what the device layer costs, not how fast a Trainium chip is. Both sides
run in one process, alternating, with the same number of threads; a ratio is the median over
pairs of neighbouring runs. Operators are counted (`torch.neuron.executed_ops()`) throughout.
"""


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))


def number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def eager(result: dict[str, Any]) -> str:
    rows = [
        [
            row["name"],
            number(row.get("cpu_us"), 1),
            number(row.get("device_us"), 1),
            number(row["ratio"], 3),
            number(row["bar"]),
            number(row["stock_ratio"]),
        ]
        for row in result["summary"]
    ]
    timeline = [
        [row["mode"], number(row["us"], 3), number(row["bar"])] for row in result["timeline_cost"]
    ]
    machine = result["machine"]
    options = " --quick" if result["effort"] == "quick" else ""
    header = ["measure", "cpu us", "neuron us", "ratio", "bar", "stock fallback"]
    return f"""## Eager execution

`python benchmarks/eager.py{options}`, on {machine["cores"]} cores of {machine["cpu"]},
{machine["threads"]} threads, PyTorch {machine["torch"]}. The last column is the ratio of a
backend that uses PyTorch's `at::native::cpu_fallback` (`benchmarks/stock_fallback/`), to the CPU
in its own process; empty where it cannot run the program.

{markdown_table(header, rows)}

{markdown_table(["virtual timeline", "us per operator", "bar"], timeline)}

- `add`, `view`: one element. `mlp`, `gpt`, `resnet18`: a training step with the optimizer, see
  `benchmarks/models.py`.
- `overloads`: the median ratio over the {len({r["name"] for r in result["overloads"]})} operator
  overloads that training calls most often (`benchmarks/hot_overloads.toml`, traced by
  `benchmarks/trace_hot_overloads.py`), with gradients on.
- `peak memory`: the peak of resident host memory in training less what is resident after the
  imports, in separate processes.

### Each overload

{overload_table(result["overloads"])}
"""


def overload_table(rows: list[dict[str, Any]]) -> str:
    columns = sorted({(row["elements"], row["strided"]) for row in rows})
    ratios = {(r["name"], r["elements"], r["strided"]): r.get("ratio") for r in rows}
    header = ["ratio to the CPU"]
    header += [f"{elements:,}{' strided' if strided else ''}" for elements, strided in columns]
    names = dict.fromkeys(row["name"] for row in rows)
    return markdown_table(
        header,
        [[f"`{name}`", *(number(ratios[name, *column]) for column in columns)] for name in names],
    )


def import_time(result: dict[str, Any]) -> str:
    return f"""## Import

`python benchmarks/import_time.py`: `import torch` takes {result["torch_ms"]:.0f} ms, and the
package adds {result["added_ms"]:.0f} ms (at most {result["bar_ms"]:.0f}).
"""


def sanitizer(result: dict[str, Any]) -> str:
    rows = [
        [row["name"], number(row["off_us"]), number(row["on_us"]), number(row["ratio"])]
        for row in result["rows"]
    ]
    return f"""## Stream sanitizer

`python benchmarks/sanitizer.py`: with `torch.neuron.sanitizer()` off and on.

{markdown_table(["program", "off us", "on us", "ratio"], rows)}
"""


def compiled_eager(result: dict[str, Any]) -> str:
    start_header = ["", "cold", "warm", "cold / warm", "median ratio of pairs", "lowest", "bar"]
    starts = [
        [
            name,
            *(
                number(row.get(key))
                for key in ("cold", "warm", "ratio_of_medians", "ratio", "lowest_ratio", "bar")
            ),
        ]
        for name, row in (
            ("s", result["start_s"]),
            ("CPU s, of all threads", result["start_cpu_s"]),
            ("s, with the import of `torch._dynamo`", result["start_with_dynamo_s"]),
        )
    ]
    spread = [
        [name, *(number(row.get(key), 1) for key in ("median", "p90", "max", "bar"))]
        for name, row in (
            ("cold compile of a program, ms", result["compile_ms"]),
            ("its CPU time on all threads, ms", result["compile_cpu_ms"]),
            ("hit above the program's execution, us", result["hit_us"]),
        )
    ]
    hits = [
        [
            f"`{row['operator']}`",
            str(row["tensors"]),
            number(row["call_us"], 1),
            number(row["execute_us"], 1),
            number(row["overhead_us"], 1),
        ]
        for row in result["hits"]
    ]
    fallbacks = {name for calls in result["fallback_calls"].values() for name in calls}
    on_cpu = ", ".join(f"`{name}`" for name in sorted(fallbacks)) or "none"
    machine = result["machine"]
    options = " --quick" if result["effort"] == "quick" else ""
    return f"""## Compiled eager

`python benchmarks/compiled_eager.py{options}`, on {machine["cores"]} cores of {machine["cpu"]},
{machine["threads"]} threads; the load of the machine was {result["load"]:.1f} before. The programs
are those of the first step of `examples/train_gpt.py` and `examples/train_digits.py`, in fresh
processes with an empty cache. A compile includes writing the program; a hit is compared with XLA's
execution of the same loaded program on arguments prepared before. Operators of these examples that
have no program on the chip and run on the CPU: {on_cpu}.

{markdown_table(["measure", "median", "90th", "max", "bar (median)"], spread)}

`train_gpt.py` from the end of its imports to the end of its first step, with an empty cache and
with a full one, in {len(result["start_s"]["pairs"])} pairs of fresh processes one after the other.
PyTorch imports `torch._dynamo` with the first optimizer, whatever the device: the first rows are
without.

{markdown_table(start_header, starts)}

{markdown_table(["program", "tensors", "call us", "execution us", "overhead us"], hits)}
"""


def compiled_graphs(result: dict[str, Any]) -> str:
    rows = []
    for row in result["rows"]:
        ours, peer, found = row["ways"]["compiled"], row["ways"]["inductor"], row["summary"]
        cuts = sum(pieces - 1 for pieces in ours["pieces"])
        rows.append(
            [
                f"{row['name']}, {row['phase']}",
                number(found["compiled_ms"], 1),
                number(found["eager_ms"], 1),
                number(found["inductor_ms"], 1),
                number(found["step"]),
                number(ours["first_s"], 1),
                number(peer["first_s"], 1),
                number(found["first"]),
                f"{ours['graphs']} / {peer['graphs']}",
                str(sum(ours["breaks"].values()) + cuts),
                "yes" if ours["is_same"] else "no",
            ]
        )
    names = {
        "first": "compile / Inductor's",
        "step": "step / Inductor's",
        "worst_step": "the same, highest",
        "step_over_eager": "step / neuron eager's",
    }
    phases = list(result["means"])
    means = [
        [
            name,
            *(number(result["means"][phase][key]) for phase in phases),
            number(result["bars"][key]),
        ]
        for key, name in names.items()
    ]
    header = ["", "compiled ms", "eager ms", "Inductor ms", "/ Inductor", "compile s"]
    header += ["Inductor s", "/ Inductor", "graphs", "breaks", "same"]
    machine = result["machine"]
    options = " --quick" if result["effort"] == "quick" else ""
    return f"""## torch.compile

`python benchmarks/compile.py{options}`, on {machine["cores"]} cores of {machine["cpu"]},
{machine["threads"]} threads; the load of the machine was {result["load"]:.1f} before. Architectures
of the field with random weights, small (`benchmarks/architectures/`), in float32. Compiled and
eager on `neuron`, and with Inductor on the CPU, each in a process of its own with empty caches. A
compile time is that of the first step, after another function was compiled; then the three take
turns, a step each, and a ratio is the median over turns. A training step is the compiled loss with
its gradient, and a fused AdamW in eager mode. Graphs are Dynamo's, ours and Inductor's; breaks are
Dynamo's and those that our compiler adds. `same`: the results are those of eager PyTorch on the
CPU, or as near to those in float64, as PyTorch's own benchmarks of compilers define it.

{markdown_table(header, rows)}

Geometric means:

{markdown_table(["ratio", *phases, "bar"], means)}
"""


def engine_rewrites(result: dict[str, Any]) -> str:
    programs = [
        [
            row["name"],
            *(number(row[key], 1) for key in ("us", "xla_us", "pytorch_us")),
            *(number(row[key]) for key in ("to_xla", "to_pytorch")),
            str(row["kernels"]),
        ]
        for row in result["operators"]
    ]
    training = [
        [
            row["name"],
            *(number(row[key], 1) for key in ("rewritten_ms", "xla_ms", "pytorch_ms")),
            *(number(row[key]) for key in ("to_xla", "to_pytorch")),
        ]
        for row in result["training"]
    ]
    machine = result["machine"]
    options = " --quick" if result["effort"] == "quick" else ""
    header = ["program", "us", "XLA us", "PyTorch us", "to XLA", "to PyTorch", "calls"]
    steps = ["training step", "ms", "XLA ms", "PyTorch ms", "to XLA", "to PyTorch"]
    return f"""## Engine rewrites

`python benchmarks/engine_rewrites.py{options}`, on {machine["cores"]} cores of {machine["cpu"]},
{machine["threads"]} threads; the load of the machine was {result["load"]:.1f} before. Programs of
one operator with [PyTorch's kernels in them](compiled_eager.md#rewrites), the same programs by
XLA's code alone, and PyTorch on the CPU. The ratios are medians over pairs of neighbouring runs;
below 1 is faster. A program copies its result to the tensor it is for, which PyTorch need not.
`calls` is how many kernels it has: none where XLA's code takes no more time.

{markdown_table(header, programs)}

Training steps of `benchmarks/models.py` in compiled eager, in turns with the CPU:

{markdown_table(steps, training)}
"""


def main() -> None:
    sections = [HEAD]
    topics = {
        "eager": eager,
        "compiled_eager": compiled_eager,
        "compile": compiled_graphs,
        "engine_rewrites": engine_rewrites,
        "sanitizer": sanitizer,
        "import_time": import_time,
    }
    for topic, write in topics.items():
        measured = RESULTS / f"{topic}.json"
        if measured.exists():
            sections.append(write(json.loads(measured.read_text())))
    DOCUMENT.write_text("\n".join(sections))
    print(f"wrote {DOCUMENT}")


if __name__ == "__main__":
    main()
