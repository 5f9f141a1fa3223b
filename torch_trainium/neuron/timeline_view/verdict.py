"""What limits a program, in words."""

from collections.abc import Mapping

from torch_trainium.neuron.timeline_view.elapsed import CoreTime

# Above this share of idle time the core is not what to look at first.
MOSTLY = 0.5

ADVICE = {
    "tensor": "matrix products set the time: this is what the chip is for",
    "vector": "element-wise work and reductions set the time; compiling fuses chains of them",
    "scalar": "activation functions set the time; compiling overlaps them with other engines",
    "gpsimd": "gathers, scatters, sorts or random numbers set the time; look for them below",
    "dma": "traffic to and from HBM sets the time; compiling keeps intermediates on the chip, "
    "and larger batches or narrower dtypes move fewer bytes per FLOP",
    "collective": "communication sets the time; overlap it with compute or send less",
    "host": "operators that fall back to the host set the time; they are listed below",
}


def verdict(time: CoreTime, bound_busy_ps: Mapping[str, int]) -> str:
    """One or two sentences: what the cores wait for, or what sets the time while they work.

    `time` is summed over cores, `bound_busy_ps` its busy part by what set its length.
    """
    if time.span_ps == 0 or not any(bound_busy_ps.values()):
        return "No device work was recorded."
    idle = time.idle_ps / time.span_ps
    if idle > MOSTLY:
        return f"{_idle_verdict(time)} The device is idle {_percent(idle)} of the time."
    bound = max(bound_busy_ps, key=bound_busy_ps.__getitem__)
    share = bound_busy_ps[bound] / time.busy_ps
    return (
        f"Device-bound: the cores are busy {_percent(1 - idle)} of the time, "
        f"{_percent(share)} of it bound by {_resource(bound)}: {ADVICE[bound]}."
    )


def _idle_verdict(time: CoreTime) -> str:
    reasons = {
        "issue": time.issue_wait_ps,
        "launch": time.launch_wait_ps,
        "tail": time.tail_ps,
    }
    reason = max(reasons, key=reasons.__getitem__)
    share = _percent(reasons[reason] / time.idle_ps)
    if reason == "issue":
        return f"Launch-bound: {share} of device idle time waits for host issue; compile it."
    if reason == "launch":
        return (
            f"Latency-bound: {share} of device idle time passes between issue and start, in "
            "launches and in waits for events and other cores; fewer, larger programs help."
        )
    return (
        f"Host-bound: {share} of device idle time comes after the last work, "
        "while the host reads results or does something else."
    )


def _resource(bound: str) -> str:
    return {"dma": "HBM traffic", "host": "the host", "collective": "collectives"}.get(
        bound, f"the {bound} engine"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
