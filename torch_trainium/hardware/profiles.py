"""Software profiles: what the host and the launch of work cost on one stack and chip."""

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from torch_trainium.hardware.facts import DATA, chips

DEFAULT_PROFILE = "torchneuron-2.33"


@dataclass(frozen=True)
class Profile:
    """Overheads in microseconds; `is_measured` is false where any of them is a mere goal."""

    name: str
    chip: str
    is_measured: bool
    eager_issue_us: float
    eager_launch_us: float
    eager_switch_us: float
    compiled_issue_us: float
    compiled_launch_us: float
    synchronize_us: float
    query_us: float
    host_read_us: float

    def overheads_us(self) -> dict[str, float]:
        """The overheads by name, as C++ takes them."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name.endswith("_us")}


@cache
def profile_names() -> tuple[str, ...]:
    """Every software profile in profiles.toml."""
    return tuple(name for name in _tables() if name != "sources")


@cache
def profile(name: str = DEFAULT_PROFILE, chip: str = "trn2") -> Profile:
    """The overheads of the stack `name` on `chip`.

    Raises:
        ValueError: no such profile or chip; the message lists the known ones.

    """
    if name not in profile_names():
        raise ValueError(
            f"no software profile is called {name!r}; there are {', '.join(profile_names())}"
        )
    if chip not in chips():
        raise ValueError(f"no chip is called {chip!r}; there are {', '.join(chips())}")
    table = _tables()[name]
    facts = {key: fact for key, fact in table.items() if key not in chips()}
    facts.update(table.get(chip, {}))
    overheads = {f.name for f in fields(Profile) if f.name.endswith("_us")}
    if set(facts) != overheads:
        raise ValueError(f"{name} in profiles.toml must have exactly {sorted(overheads)}")
    return Profile(
        name=name,
        chip=chip,
        is_measured=all(fact["confidence"] != "unmeasured" for fact in facts.values()),
        **{key: float(fact["value"]) for key, fact in facts.items()},
    )


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads((DATA / "profiles.toml").read_text(encoding="utf-8"))
