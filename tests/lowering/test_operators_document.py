"""docs/operators.md says what the registry, the proofs and the rules say."""

from torch_trainium.lowering import table
from torch_trainium.lowering.__main__ import DOCUMENT


def test_the_document_is_current():
    assert DOCUMENT.read_text(encoding="utf-8") == table.as_markdown(), (
        "run python -m torch_trainium.lowering --write"
    )
