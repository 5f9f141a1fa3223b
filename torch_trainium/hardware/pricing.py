"""What a machine costs, from prices.toml or a file of the same form."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from torch_trainium.hardware.facts import DATA


@dataclass(frozen=True)
class Price:
    """US dollars an hour for one machine under one plan, as seen in `region` on `date`."""

    machine: str
    plan: str
    usd_per_hour: float
    region: str
    date: str
    source: str
    confidence: str


def prices(file: Path = DATA / "prices.toml") -> tuple[Price, ...]:
    """Every price of `file`, in its order.

    Raises:
        ValueError: the file is no TOML, or a row lacks a part.
        OSError: the file cannot be read.

    """
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    sources = tables.pop("sources", {})
    found = []
    for machine, plans in tables.items():
        for plan, row in plans.items():
            try:
                price = Price(
                    machine=machine,
                    plan=plan,
                    usd_per_hour=float(row["value"]),
                    region=row["region"],
                    date=row["date"],
                    source=sources[row["source"]],
                    confidence=row["confidence"],
                )
            except KeyError as error:
                raise ValueError(f"{file}: {plan} of {machine} lacks {error}") from error
            found.append(price)
    return tuple(found)
