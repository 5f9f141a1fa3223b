"""What limits a program, in words."""

from collections.abc import Mapping

from torch_trainium.neuron.timeline_view.elapsed import CoreTime

# Above this share of the time, something is what to look at first.
MOSTLY = 0.5

# What busy cores are bound by, and what that means.
BUSY = {
    "tensor": ("the tensor engine", "matrix products set the time: what the chip is for"),
    "vector": (
        "the vector engine",
        "element-wise work and reductions set the time; compiling fuses chains of them",
    ),
    "scalar": (
        "the scalar engine",
        "activation functions set the time; compiling overlaps them with other engines",
    ),
    "gpsimd": (
        "the GpSimd engine",
        "gathers, scatters, sorts or random numbers set the time; look for them below",
    ),
    "dma": (
        "HBM traffic",
        "compiling keeps intermediates on the chip, and larger batches or narrower dtypes move "
        "fewer bytes per FLOP",
    ),
    "collective": ("collectives", "overlap communication with compute, or send less"),
    "overhead": (
        "the fixed cost of programs",
        "no engine is busy most of the time; fewer, larger programs help, so compile it",
    ),
    "copy": ("copies between host and device", "copy less, or while the device computes"),
    "host": ("CPU fallbacks", "the operators that fall back are listed below"),
}


def verdict(time: CoreTime, busy_parts_ps: Mapping[str, int]) -> str:
    """One or two sentences: what the cores wait for, or what sets the time while they work.

    `time` is summed over cores, `busy_parts_ps` its busy part by what the cores did.
    """
    if time.span_ps == 0 or time.busy_ps == 0:
        return "No device work was recorded."
    span_ps = time.span_ps
    if time.launch_bound_ps > MOSTLY * span_ps:
        issue, launch, overhead = (
            _percent(ps / span_ps)
            for ps in (time.issue_wait_ps, time.launch_wait_ps, busy_parts_ps["overhead"])
        )
        return (
            f"Launch-bound: {_percent(time.launch_bound_ps / span_ps)} of the time goes to work "
            "that takes less time than asking for it and launching it; compile it. The device "
            f"waits for the host {issue} of the time, for launches {launch}, and the fixed cost of "
            f"programs takes {overhead}."
        )
    if time.idle_ps > MOSTLY * span_ps:
        idle = _percent(time.idle_ps / span_ps)
        return f"{_idle_verdict(time)} The device is idle {idle} of the time."
    part = max(busy_parts_ps, key=busy_parts_ps.__getitem__)
    what, advice = BUSY[part]
    return (
        f"Device-bound: the cores are busy {_percent(time.busy_ps / span_ps)} of the time, "
        f"{_percent(busy_parts_ps[part] / time.busy_ps)} of it with {what}: {advice}."
    )


def _idle_verdict(time: CoreTime) -> str:
    if time.tail_ps > time.idle_ps / 2:
        share = _percent(time.tail_ps / time.idle_ps)
        return (
            f"Host-bound: {share} of device idle time comes after the last work, "
            "while the host reads results or does something else."
        )
    share = _percent((time.issue_wait_ps + time.launch_wait_ps) / time.idle_ps)
    return (
        f"Latency-bound: {share} of device idle time passes before work starts, in launches "
        "and in waits for events and other cores; fewer, larger programs help."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
