"""What checks found of each operator's programs: `data/emitted.json`. Loads no jaxlib.

A check runs an operator as a program and compares it; what the program consisted of, or why there
was none, is kept by functional overload and by the dtype of the call's first tensor (a result's,
where the operator takes none). In the file, one line is one set of dtypes with the same findings:

    "bfloat16 float16": "add convert multiply @f32"
    "float32": "convolution convolution:kernel_dilation? ! 4 spatial dimensions"

lists tokens (see `emitted`); `?` marks those that only some programs have, and what follows `!` is
why a sample had no program. Where an argument decides what an operator's programs consist of (see
`uses`), "int64 accumulate=True" has a line of its own. `by` names the check where it is not
PyTorch's operator database, and `of` the operators that one without a program of its own is made
of.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from torch_trainium.lowering import dtypes

OPERATOR_DATABASE = "op_db"
# The problem of a program that runs and is wrong.
DIFFERS = "its results are not the CPU's"
DATA = Path(str(files(__package__) / "data" / "emitted.json"))


@dataclass(frozen=True)
class Proof:
    """What the programs of an overload for one dtype consisted of.

    Attributes:
        always: tokens that every program had, trivial ones left out.
        sometimes: tokens that some program had beside these.
        problem: why a sample had no program, or a wrong one; "" where all had.
        has_programs: whether any sample had.

    """

    always: frozenset[str] = frozenset()
    sometimes: frozenset[str] = frozenset()
    problem: str = ""
    has_programs: bool = False

    def merged(self, other: Proof) -> Proof:
        """The findings of both."""
        tokens = self.always | self.sometimes | other.always | other.sometimes
        # Trivial programs alone say nothing about what every program has.
        informative = [proof.always for proof in (self, other) if proof.always]
        always = frozenset.intersection(*informative) if informative else frozenset()
        return Proof(
            always,
            tokens - always,
            self.problem or other.problem,
            self.has_programs or other.has_programs,
        )

    def __str__(self) -> str:
        words = sorted([*self.always, *(f"{token}?" for token in self.sometimes)])
        problem = ["!", self.problem] if self.problem else []
        # A program that moves nothing, such as that of a view's copy, has no operations.
        return " ".join([*(words or ["nothing"] * self.has_programs), *problem])


def parse(text: str) -> Proof:
    """The proof that `str` gave this line."""
    words, _, problem = text.partition("!")
    tokens = [word for word in words.split() if word != "nothing"]
    return Proof(
        frozenset(token for token in tokens if not token.endswith("?")),
        frozenset(token.removesuffix("?") for token in tokens if token.endswith("?")),
        problem.strip(),
        bool(words.strip()),
    )


class Proofs:
    """The proofs of all overloads, as a check fills them in."""

    def __init__(self) -> None:
        # By overload, dtype and use.
        self._by_dtype: dict[str, dict[str, dict[str, Proof]]] = {}
        self._check: dict[str, str] = {}
        self._parts: dict[str, tuple[str, ...]] = {}

    def record(
        self,
        overload: str,
        tensors: Sequence[torch.dtype],
        tokens: Iterable[str],
        *,
        use: str = "",
        is_trivial: bool = False,
        check: str = OPERATOR_DATABASE,
    ) -> None:
        """A call ran as a program and did what it should.

        Args:
            overload: the functional overload, such as "aten::add.Tensor".
            tensors: the dtypes of the call's tensors, arguments in the schema's order first, then
                results; there is at least one.
            tokens: what the program consisted of.
            use: what the call used it for, as `uses.use_of` names it.
            is_trivial: whether it may lack what other calls have, as for tensors without
                elements.
            check: which check ran it.

        """
        # What the dtypes of its own tensors are is no finding.
        own = {f"@{dtypes.ELEMENT_TYPES.get(dtype)}" for dtype in tensors}
        found = frozenset(tokens) - own
        proof = Proof(
            frozenset() if is_trivial else found,
            found if is_trivial else frozenset(),
            has_programs=True,
        )
        self._add(overload, _name(tensors[0]), use, proof, check)

    def record_problem(
        self,
        overload: str,
        tensors: Sequence[torch.dtype],
        problem: str,
        *,
        use: str = "",
        check: str = OPERATOR_DATABASE,
    ) -> None:
        """A call had no program, or one that was wrong; `problem` says why, in a few words."""
        line = " ".join(problem.replace("!", ".").split())
        self._add(overload, _name(tensors[0]), use, Proof(problem=line), check)

    def record_composition(
        self, overload: str, parts: Iterable[str], *, check: str = OPERATOR_DATABASE
    ) -> None:
        """A call ran as the programs of several operators, with a read by the host between them."""
        self.record_use(overload, check=check)
        self._parts[overload] = tuple(parts)

    def record_use(self, overload: str, *, check: str = OPERATOR_DATABASE) -> None:
        """A check uses an operator, in dtypes that it runs no programs in."""
        self._by_dtype.setdefault(overload, {})
        self._note_check(overload, check)

    def merge(self, other: Proofs) -> None:
        """Add what another run of the same lowerings found."""
        for overload, by_dtype in other._by_dtype.items():
            self.record_use(overload, check=other._check[overload])
            for dtype, by_use in by_dtype.items():
                for use, proof in by_use.items():
                    self._add(overload, dtype, use, proof, other._check[overload])

        for overload, parts in other._parts.items():
            self.record_composition(overload, parts, check=other._check[overload])

    def replace(self, other: Proofs) -> None:
        """Let newer findings take the place of those of the same overload and dtype."""
        for overload, by_dtype in other._by_dtype.items():
            self._by_dtype.setdefault(overload, {}).update(by_dtype)
            self._check[overload] = other._check[overload]
        self._parts |= other._parts

    def supplement(self, other: Proofs) -> None:
        """Add newer findings of another check, where this has none of its own."""
        for overload, by_dtype in other._by_dtype.items():
            known = self._by_dtype.setdefault(overload, {})
            check = self._check.setdefault(overload, other._check[overload])
            for dtype, by_use in by_dtype.items():
                if dtype not in known or check == other._check[overload]:
                    known[dtype] = by_use

    def _add(self, overload: str, dtype: str, use: str, proof: Proof, check: str) -> None:
        known = self._by_dtype.setdefault(overload, {}).setdefault(dtype, {})
        known[use] = known[use].merged(proof) if use in known else proof
        self._note_check(overload, check)

    def _note_check(self, overload: str, check: str) -> None:
        # What the operator database uses counts for the score, whoever checks it besides.
        if self._check.get(overload) != OPERATOR_DATABASE:
            self._check[overload] = check

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._by_dtype))

    def __contains__(self, overload: object) -> bool:
        return overload in self._by_dtype

    def of(self, overload: str) -> Mapping[torch.dtype, Mapping[str, Proof]]:
        """The proofs of an overload by dtype and by use; none where no check uses it.

        The use is "" of an operator whose programs no argument decides.
        """
        return {getattr(torch, name): p for name, p in self._by_dtype.get(overload, {}).items()}

    def parts_of(self, overload: str) -> tuple[str, ...]:
        """The operators that one is made of; none where it has a program of its own."""
        return self._parts.get(overload, ())

    def check_of(self, overload: str) -> str:
        """Which check the proofs of an overload come from; "" where there are none."""
        return self._check.get(overload, "")

    def to_json(self) -> dict[str, Any]:
        """As the data file holds them; worker processes hand theirs over so."""
        table = {}
        for overload in self:
            dtypes_of: dict[tuple[str, str], list[str]] = {}
            for dtype, by_use in sorted(self._by_dtype[overload].items()):
                for use, proof in by_use.items():
                    dtypes_of.setdefault((use, str(proof)), []).append(dtype)
            rows = {
                " ".join([*names, use]).rstrip(): text for (use, text), names in dtypes_of.items()
            }
            check = self._check[overload]
            by = {} if check == OPERATOR_DATABASE else {"by": check}
            parts = {"of": " ".join(self._parts[overload])} if overload in self._parts else {}
            table[overload] = {**by, **parts, **dict(sorted(rows.items()))}
        return table


def from_json(table: Mapping[str, Any]) -> Proofs:
    """What `Proofs.to_json` gave."""
    proofs = Proofs()
    for overload, rows in table.items():
        check = rows.get("by", OPERATOR_DATABASE)
        proofs.record_use(overload, check=check)
        if "of" in rows:
            proofs.record_composition(overload, rows["of"].split(), check=check)
        for key, text in rows.items():
            words = key.split() if key not in ("by", "of") else []
            names = [word for word in words if "=" not in word]
            (use,) = [word for word in words if "=" in word] or [""]
            for dtype in names:
                proofs._add(overload, dtype, use, parse(text), check)
    return proofs


def read(path: Path = DATA) -> Proofs:
    """The proofs in the data file."""
    return from_json(json.loads(path.read_text(encoding="utf-8")))


def write(proofs: Proofs, path: Path = DATA) -> None:
    """Write the data file."""
    text = json.dumps(proofs.to_json(), indent=0, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
