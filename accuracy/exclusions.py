"""Which rows are not predicted, by rules: a condition on the row and the reason."""

from collections.abc import Callable

from accuracy.measure import is_known
from accuracy.models.configs import find_decoder
from accuracy.rows import Row

MODELLED_CHIPS = ("trn2", "trn3")
CORES_OF_A_CHIP = 8


def _mentions(*words: str) -> Callable[[Row], bool]:
    return lambda row: any(word in f"{row.text} {row.metric.lower()}" for word in words)


def _speculates(row: Row) -> bool:
    if any(key in row.params for key in ("speculation", "acceptance_len", "draft")):
        return True
    return _mentions("eagle", "spec decode", "speculat", "fused_spec", "medusa")(row)


def _is_under_load(row: Row) -> bool:
    """A scheduler decides how requests wait for one another."""
    loaded = row.word("mode").startswith(("asynchronous", "throughput"))
    if loaded or "saturated" in row.text or "prompts" in row.params:
        return True
    requests = row.number("concurrency", default=1) or 1
    queues = any(word in row.metric for word in ("ttft", "tokens_per_s", "e2e"))
    return row.kind == "infer" and requests > 1 and queues


def _is_generation_loop(row: Row) -> bool:
    by_python = "hf generate" in f"{row.text} {row.stack}" or "nxdi e2e" in row.text
    return by_python and ("e2e" in row.metric or "throughput" in row.metric)


def _is_slower_on_the_newer_chip(row: Row) -> bool:
    is_baseline = row.word("variant").lower() == "xla" and row.logical_core_size == 2
    return row.chip == "trn3" and find_decoder(row.workload) is not None and is_baseline


RULES: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    (
        "another chip (NeuronCore-v2: Trainium1, Inferentia2); the cost model has Trainium2 and 3",
        lambda row: row.chip not in MODELLED_CHIPS,
    ),
    (
        "compile time: the compiler runs on the host",
        _mentions("compile_time", "first_step", "neff compile", "cold_compile"),
    ),
    (
        "start-up, storage or network: not the device",
        _mentions(
            "nrt init",
            "cold start",
            "checkpoint read",
            "weight transfer",
            "fsx",
            "efa host-staged",
            "neff load",
        ),
    ),
    ("speculative decoding: accepted tokens depend on the text", _speculates),
    ("serving under load: how requests queue is the scheduler's", _is_under_load),
    (
        "a generation loop in Python between the graphs, whose host work is measured",
        _is_generation_loop,
    ),
    ("sampling on the host between the graphs", lambda row: row.word("sampling") == "host"),
    (
        "models whose layers the source runs one by one from Python",
        lambda row: "host heavy" in row.word("note"),
    ),
    (
        "an XLA baseline that its project publishes as slower on Trainium3 (14.4 ms a token) than "
        "on Trainium2 (10.6 ms)",
        _is_slower_on_the_newer_chip,
    ),
    (
        "copies of many ranks at once: the host's memory is shared, which is not modelled",
        lambda row: (
            _mentions("copy", "host->device", "device->host")(row)
            and (row.number("ranks", default=1) or 1) > CORES_OF_A_CHIP
        ),
    ),
    (
        "a sequencer, register or queue event: no formula of the cost model has it",
        lambda row: (
            row.kind == "micro"
            and _mentions(
                "table load",
                "table_load",
                "ldweights",
                "tensor_load",
                "register",
                "throttle:",
                "trigger",
                "consumer engine",
                "issue_time",
            )(row)
        ),
    ),
    (
        "a collective that its source calls dominated by the launch: it says nothing of the links",
        lambda row: row.kind == "collective" and "launch" in row.word("caution"),
    ),
    (
        "memory, not time",
        lambda row: row.kind == "memory" or row.unit in ("GB", "MiB", "GiB", "MB"),
    ),
    (
        "a constant of a software profile or of the runtime, not a workload",
        lambda row: (
            "runtime event" in row.text
            or (
                row.kind == "overhead"
                and not _mentions("copy", "host->device", "device->host")(row)
            )
        ),
    ),
    (
        "an average over programs that the source does not list, or without their shapes",
        _mentions("average", "explorer sample", "pct_of_peak"),
    ),
    (
        "activity of one engine inside a whole model: profilers count waiting as activity",
        lambda row: row.metric.endswith("_active") and row.metric != "pe_active",
    ),
    ("a unit that is neither time nor rate", lambda row: not is_known(row.unit)),
)


def reason(row: Row) -> str | None:
    """Why a row is not predicted; None if it should be."""
    return next((why for why, applies in RULES if applies(row)), None)
