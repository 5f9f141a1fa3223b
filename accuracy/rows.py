"""Published measurements as rows of a table, and what one row's numbers mean."""

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch_trainium.hardware.facts import DATA

MEASURED = DATA / "measured.csv"


@dataclass(frozen=True)
class Row:
    """One published number: what ran, on what, and the value."""

    id: str
    kind: str
    workload: str
    params: Mapping[str, Any]
    hardware: str
    metric: str
    value: float
    unit: str
    source: str

    @property
    def chip(self) -> str:
        """The chip family: "trn2", "trn3", or an older one."""
        return str(self.params.get("family", ""))

    @property
    def group(self) -> str:
        """The document that the number comes from; numbers of one document are correlated."""
        return str(self.params.get("group", self.source))

    @cached_property
    def text(self) -> str:
        """Workload, variant and mode in lower case, to look for words in."""
        parts = [self.workload, self.params.get("variant", ""), self.params.get("mode", "")]
        return " ".join(map(str, parts)).lower()

    @property
    def logical_core_size(self) -> int:
        """Physical cores of the core that ran: as stated, else by the name of the hardware."""
        stated = self.params.get("lnc")
        if stated is not None:
            return int(stated)
        return 1 if re.search(r"\b1 (NC|DMA engine)\b|LNC1", self.hardware) else 2

    @property
    def stack(self) -> str:
        """The software, as the source names it, in lower case."""
        return str(self.params.get("stack", "")).lower()

    def number(self, *names: str, default: float | None = None) -> float | None:
        """The first of the named parameters that is a number."""
        for name in names:
            value = self.params.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return value
            approximate = re.match(r"~(\d+)", value) if isinstance(value, str) else None
            if approximate:
                return float(approximate.group(1))
        return default

    def count(self, *names: str, default: int) -> int:
        """The first of the named parameters that is a number, as an integer."""
        return int(self.number(*names, default=default) or default)

    def word(self, name: str, default: str = "") -> str:
        """A parameter as text."""
        value = self.params.get(name)
        return default if value is None else str(value)


def read_rows(path: Path = MEASURED) -> tuple[Row, ...]:
    """Every row of a table of measurements."""
    with path.open(encoding="utf-8", newline="") as lines:
        return tuple(
            Row(
                id=line["id"],
                kind=line["kind"],
                workload=line["workload"],
                params=json.loads(line["params_json"]),
                hardware=line["hardware"],
                metric=line["metric"],
                value=float(line["value"]),
                unit=line["unit"],
                source=line["source"],
            )
            for line in csv.DictReader(lines)
        )
