"""The sections of the report, each a function of the view; `SECTIONS` is their order."""

from collections.abc import Callable, Iterator, Mapping

from torch_trainium.neuron.timeline_view import units
from torch_trainium.neuron.timeline_view.markup import Cell, Content, Markup, element, join, table
from torch_trainium.neuron.timeline_view.memory_plot import memory_devices, memory_plot
from torch_trainium.neuron.timeline_view.records import ENGINES, PICOSECONDS_PER_SECOND
from torch_trainium.neuron.timeline_view.roofline import roofline_points
from torch_trainium.neuron.timeline_view.roofline_plot import roofline_plot
from torch_trainium.neuron.timeline_view.totals import (
    ModuleTotal,
    Total,
    by_line,
    by_module,
    by_operator,
    memory_over_time,
)
from torch_trainium.neuron.timeline_view.verdict import verdict
from torch_trainium.neuron.timeline_view.view import View

SHOWN_LINES = 10
# Modules that the page shows at first; deeper ones open on a click.
OPEN_DEPTH = 2

ENGINE_NAMES = {
    "tensor": "Tensor engine",
    "vector": "Vector engine",
    "scalar": "Scalar engine",
    "gpsimd": "GpSimd engine",
    "dma": "DMA (HBM traffic)",
    "collective": "Collectives",
}
ENGINE_TIPS = {
    "tensor": "Matrix products and convolutions",
    "vector": "Element-wise work and reductions",
    "scalar": "Activation functions",
    "gpsimd": "Gathers, scatters, sorts, random numbers",
    "dma": "Moving data between HBM and the core's memory",
    "collective": "Communication between cores",
}
COMPOSITION_NAMES = ENGINE_NAMES | {
    "overhead": "Fixed cost of programs",
    "copy": "Host copies",
    "host": "CPU fallbacks",
    "issue": "Idle: host has not issued",
    "launch": "Idle: launch and waits",
    "tail": "Idle: after the last work",
}
COMPOSITION_TIPS = ENGINE_TIPS | {
    "overhead": "Programs beyond their busiest engine: start, latencies, engines waiting",
    "copy": "From and to the host, while nothing else runs",
    "host": "Operators the chip does not have",
    "issue": "The device has run out of work",
    "launch": "Issued, but launching or waiting for events or other cores",
    "tail": "The host reads results or does something else",
}

TIME_TIP = "Doing the work and waiting for it; the rows add up to the cores' time"
DEVICE_TIP = "Occupying a queue of the device, waiting left out"
LAUNCH_TIP = "Calls whose work takes less time than asking for it and launching it"


def masthead(view: View) -> Markup:
    """Title, machine, the verdict and the caveat."""
    snapshot = view.snapshot
    facts = {
        "Instance": snapshot.instance,
        "Chip": snapshot.chip,
        "Physical cores per device": str(snapshot.logical_core_size),
        "Devices used": str(len(view.cores)),
        "Software profile": snapshot.profile,
    }
    theme = element("button", "Theme: auto", id="theme", type="button")
    heading = element("div", [element("h1", view.title), theme], class_="heading")
    words = verdict(view.all_cores, view.busy_parts_ps)
    caveat = join(
        [
            element("strong", "Emulated. "),
            "These times come from a cost model, not from a chip. Its error on published "
            "measurements, per family, is in ",
            element("code", "docs/accuracy.md"),
            f"; software overheads are those of the profile {snapshot.profile}.",
        ]
    )
    return element(
        "header",
        [
            heading,
            element("dl", [_fact(name, value) for name, value in facts.items()], class_="facts"),
            element("p", words, id="verdict"),
            element("p", caveat, id="caveat"),
        ],
    )


def _fact(name: str, value: str) -> Markup:
    return element("div", [element("dt", name), element("dd", value)])


def footer(view: View) -> Markup:
    """How to read the times."""
    return element(
        "footer",
        "Each instant of a core's time belongs to one unit of work: the one that the core does, "
        "or waits for. The times of a table's rows therefore add up to the cores' time, "
        f"{units.time(view.all_cores.span_ps)} here, apart from what comes after the last work. "
        "Backward work counts for the module and line whose forward it differentiates.",
    )


def headline(view: View) -> Markup:
    """The few numbers that matter most."""
    records = view.snapshot.records
    launch_bound = sum(record.bound == "launch" for record in records)
    flops = sum(record.flops for record in records)
    seconds = view.snapshot.duration_ps / PICOSECONDS_PER_SECOND
    dtype = max(view.peaks.flops_per_s, key=view.peaks.flops_per_s.__getitem__)
    peak = view.peaks.flops_per_s[dtype] * max(len(view.cores), 1)
    rate = flops / seconds if seconds else 0.0
    memory = max((record.allocated_bytes for record in records), default=0)
    fallback_calls = sum(fallback.calls for fallback in view.snapshot.fallbacks.values())
    steps = f"mean of {view.steps} steps" if view.steps > 1 else "host time included"
    tiles = [
        _tile("step-time", "Step time", units.time(view.step_ps), steps),
        _tile(
            "busy",
            "Device busy",
            units.percent(view.share(view.all_cores.busy_ps)),
            f"{units.time(view.all_cores.busy_ps)} over {len(view.cores)} "
            f"{'core' if len(view.cores) == 1 else 'cores'}",
        ),
        _tile(
            "launch-bound",
            "Launch-bound work",
            units.percent(launch_bound / len(records) if records else 0),
            f"{units.count(launch_bound)} of {units.count(len(records))} units of work",
        ),
        _tile(
            "flops",
            "Achieved",
            units.flops_rate(rate),
            f"{units.percent(rate / peak)} of the {dtype} peak",
        ),
        _tile("memory-peak", "Peak memory", units.bytes_size(memory), "in use on one device"),
        _tile(
            "fallback-calls",
            "CPU fallbacks",
            units.count(fallback_calls),
            "calls the chip has no operator for",
        ),
    ]
    return element("section", tiles, id="headline", class_="tiles", aria_label="Headline")


def _tile(identity: str, name: str, value: str, note: str) -> Markup:
    content = [
        element("div", name, class_="name"),
        element("div", _with_small_unit(value), class_="value"),
        element("div", note, class_="note"),
    ]
    return element("div", content, id=identity, class_="tile")


def _with_small_unit(quantity: str) -> Markup:
    number, space, unit = quantity.rpartition(" ")
    return join([number, space, element("small", unit)]) if number else join(unit)


def composition(view: View) -> Markup:
    """The cores' time as one bar: busy by what set its length, idle by what it waited for."""
    time = view.all_cores
    parts = {
        **view.busy_parts_ps,
        "issue": time.issue_wait_ps,
        "launch": time.launch_wait_ps,
        "tail": time.tail_ps,
    }
    shown = {name: ps for name, ps in parts.items() if ps}
    segments = [
        element(
            "span",
            class_=f"segment {name}",
            style=f"flex-grow:{ps}",
            data_tip=_composition_tip(view, name, ps),
        )
        for name, ps in shown.items()
    ]
    legend = [
        element(
            "li",
            [
                element("span", class_=f"swatch {name}"),
                element("span", COMPOSITION_NAMES[name], class_="name"),
                element("span", units.percent(view.share(ps)), class_="value"),
                element("span", units.time(ps), class_="note"),
            ],
            data_tip=_composition_tip(view, name, ps),
        )
        for name, ps in shown.items()
    ]
    return _section(
        "composition",
        "Where the time goes",
        "Busy time by the engine that sets its length, idle time by what the core waits for.",
        [
            element("div", segments, class_="stack", role="img", aria_label="Shares as listed"),
            element("ul", legend, class_="legend"),
        ],
    )


def _composition_tip(view: View, name: str, ps: int) -> str:
    amount = f"{units.time(ps)}, {units.percent(view.share(ps))}"
    return f"{COMPOSITION_NAMES[name]}\n{COMPOSITION_TIPS[name]}\n{amount}"


def engines(view: View) -> Markup:
    """How busy each engine is; per core where there are several."""
    rows = [
        [
            Cell(
                [element("span", class_=f"swatch {engine}"), ENGINE_NAMES[engine]],
                order=ENGINE_NAMES[engine],
            ),
            Cell(units.percent(view.share(ps)), order=view.share(ps), bar=view.share(ps)),
            Cell(units.time(ps), order=ps),
        ]
        for engine, ps in view.engine_busy_ps.items()
    ]
    attributes = [
        {"data_engine": engine, "data_tip": ENGINE_TIPS[engine]} for engine in view.engine_busy_ps
    ]
    columns = {"Engine": "", "Busy": "Share of the cores' time", "Time": "Summed over cores"}
    content = [table("engine-table", columns, rows, row_attributes=attributes)]
    if len(view.cores) > 1:
        content.append(_cores_table(view))
    return _section(
        "engines",
        "Engines",
        "The engines of a core work side by side, so these shares need not add up to anything.",
        content,
    )


def _cores_table(view: View) -> Markup:
    busy_ps = {device: dict.fromkeys(ENGINES, 0) for device in view.cores}
    for record in view.snapshot.records:
        for engine, ps in zip(ENGINES, record.engine_ps, strict=True):
            busy_ps[record.device][engine] += ps

    def shares(device: int) -> Iterator[Cell]:
        time = view.cores[device]
        amounts = [time.busy_ps, time.issue_wait_ps, *busy_ps[device].values()]
        for ps in amounts:
            share = ps / time.span_ps if time.span_ps else 0.0
            yield Cell(units.percent(share), order=share)

    columns = {"Core": "", "Busy": "", "Host wait": "Idle, and the host had not issued"}
    columns |= {ENGINE_NAMES[engine].split(" (")[0]: ENGINE_TIPS[engine] for engine in ENGINES}
    rows = [
        [Cell(f"neuron:{device}", order=f"neuron:{device}"), *shares(device)]
        for device in view.cores
    ]
    return table("core-table", columns, rows)


def modules(view: View) -> Markup:
    """The tree of modules with inclusive times."""
    root = by_module(view.items)
    rows, attributes = [], []
    for depth, module in _walk(root, 0):
        rows.append(_module_row(view, module, depth))
        attributes.append(
            {
                "data_path": module.path,
                "data_depth": str(depth),
                "data_open": str(depth + 1 < OPEN_DEPTH).lower() if module.children else None,
                "hidden": depth >= OPEN_DEPTH,
            }
        )
    columns = {
        "Module": "",
        "Time": TIME_TIP,
        "Share": "Of the cores' time, submodules included",
        "Backward": "Share of this module's time that is backward work",
        "On device": DEVICE_TIP,
        "Calls": "Units of device work",
        "Launch-bound": LAUNCH_TIP,
    }
    return _section(
        "modules",
        "Modules",
        "Times include submodules. Select a module to open or close it.",
        [table("module-table", columns, rows, sortable=False, row_attributes=attributes)],
    )


def _walk(module: ModuleTotal, depth: int) -> Iterator[tuple[int, ModuleTotal]]:
    for child in module.children.values():
        yield depth, child
        yield from _walk(child, depth + 1)


def _module_row(view: View, module: ModuleTotal, depth: int) -> list[Cell]:
    total = module.total
    is_open = depth + 1 < OPEN_DEPTH
    label: Markup = (
        element("button", module.name, type="button", aria_expanded=str(is_open).lower())
        if module.children
        else element("span", module.name, class_="leaf")
    )
    indent = element("span", label, class_="tree", style=f"--depth:{depth}")
    share = view.share(total.elapsed_ps)
    backward = total.backward_ps / total.elapsed_ps if total.elapsed_ps else 0.0
    return [
        Cell(indent, order=module.path),
        Cell(units.time(total.elapsed_ps), order=total.elapsed_ps),
        Cell(units.percent(share), order=share, bar=share),
        Cell(units.percent(backward), order=backward),
        *_work_cells(total),
    ]


def roofline(view: View) -> Markup:
    """Operators against the roofs of the core."""
    plot = roofline_plot(roofline_points(view.snapshot.records), view.peaks)
    return _section(
        "roofline",
        "Roofline",
        "One disc per operator, its area the share of device time. Distance below the roof is "
        "what the operator leaves unused while it runs; waiting for the host is not counted.",
        [element("div", plot, class_="plot")],
    )


def memory(view: View) -> Markup:
    """Device memory over time."""
    snapshot = view.snapshot
    curves = memory_over_time(snapshot)
    plot = memory_plot(curves, snapshot.started_ps, snapshot.ended_ps)
    shown = memory_devices(curves)
    key = [
        element("li", [element("span", class_=f"swatch device-{rank}"), f"neuron:{device}"])
        for rank, device in enumerate(shown)
    ]
    note = f" The {len(shown)} devices that use most." if len(shown) < len(curves) else ""
    return _section(
        "memory",
        "Memory over time",
        f"In use on the device when work is issued.{note}",
        [
            element("div", plot, class_="plot"),
            element("ul", key, class_="legend compact") if len(curves) > 1 else "",
        ],
    )


def lines(view: View) -> Markup:
    """The lines of the user's program that cost most."""
    totals = by_line(view.items)
    rest = len(totals) - SHOWN_LINES
    return _section(
        "lines",
        "Most expensive lines",
        "Backward work counts for the line that ran forward."
        + (f" {units.count(rest)} more lines are not shown." if rest > 0 else ""),
        [_totals_table("line-table", "Line", dict(list(totals.items())[:SHOWN_LINES]), view)],
    )


def operators(view: View) -> Markup:
    """All operators of the scope."""
    return _section(
        "operators",
        "Operators",
        "Every operator of the scope. Select a heading to sort.",
        [_totals_table("operator-table", "Operator", by_operator(view.items), view)],
    )


def _totals_table(identity: str, what: str, totals: Mapping[str, Total], view: View) -> Markup:
    columns = {
        what: "",
        "Time": TIME_TIP,
        "Share": "Of the cores' time",
        "On device": DEVICE_TIP,
        "Calls": "Units of device work",
        "Launch-bound": LAUNCH_TIP,
        "FLOP": "A multiply-add is 2",
        "HBM": "Read and written",
    }
    rows = [
        [
            _name_cell(view, name),
            Cell(units.time(total.elapsed_ps), order=total.elapsed_ps),
            Cell(
                units.percent(view.share(total.elapsed_ps)),
                order=view.share(total.elapsed_ps),
                bar=view.share(total.elapsed_ps),
            ),
            *_work_cells(total),
            Cell(units.flops(total.flops), order=total.flops),
            Cell(units.bytes_size(total.hbm_bytes), order=total.hbm_bytes),
        ]
        for name, total in totals.items()
    ]
    return table(identity, columns, rows)


def _name_cell(view: View, name: str) -> Cell:
    return Cell(_source(view, name), order=name)


def _source(view: View, name: str) -> Markup:
    """A line without the folder that all lines share, or any other name as it is."""
    short = name.removeprefix(view.source_folder)
    return element("code", short, data_tip=name if short != name else None)


def _work_cells(total: Total) -> list[Cell]:
    launch_bound = total.launch_bound_calls / total.calls
    return [
        Cell(units.time(total.device_ps), order=total.device_ps),
        Cell(units.count(total.calls), order=total.calls),
        Cell(units.percent(launch_bound), order=launch_bound),
    ]


def fallbacks(view: View) -> Markup:
    """Operators that the chip has no program for."""
    found = view.snapshot.fallbacks
    if not found:
        content = element("p", "None: every operator that ran is native.", class_="empty")
    else:
        rows = [
            [
                _name_cell(view, name),
                Cell(units.time(fallback.ps), order=fallback.ps),
                Cell(units.count(fallback.calls), order=fallback.calls),
                Cell(fallback.reason),
                Cell([element("div", _source(view, line)) for line in fallback.lines]),
            ]
            for name, fallback in sorted(found.items(), key=lambda pair: (-pair[1].ps, pair[0]))
        ]
        columns = {
            "Operator": "",
            "Time": "Both copies and the CPU",
            "Calls": "",
            "Why": "What the chip's compiler does not take of it",
            "Lines": "",
        }
        content = table("fallback-table", columns, rows)
    return _section(
        "fallbacks",
        "CPU fallbacks",
        "Operators that the chip has no program for: their operands go to the host and back.",
        [content],
    )


def _section(identity: str, title: str, note: str, content: Content) -> Markup:
    heading = [element("h2", title), element("p", note, class_="note")]
    return element("section", join([join(heading), join(content)]), id=identity, class_="card")


SECTIONS: tuple[Callable[[View], Markup], ...] = (
    headline,
    composition,
    engines,
    modules,
    roofline,
    memory,
    lines,
    operators,
    fallbacks,
)
