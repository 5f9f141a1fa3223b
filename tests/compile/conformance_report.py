"""Writes docs/compile_conformance.md from the results of the cases."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

import torch

from tests.conformance.case import FAILURES, Result, Status
from tests.conformance.report import listed, samples_by_dtype


def render(results: Sequence[Result], samples: int) -> str:
    """The document.

    Args:
        results: of all cases.
        samples: how many samples of an operator were run.

    """
    done = [result for result in results if result.status is not Status.SKIPPED]
    passed = sum(result.status is Status.PASSED for result in done)
    share = 10_000 * passed // max(1, len(done)) / 100  # never rounded up
    expected = [result for result in results if result.status is Status.EXPECTED]
    failed = [result for result in results if result.status in FAILURES]
    paragraphs = [
        f"""Written by `make conformance-compile`; do not edit. The first {samples} samples of each
        operator in PyTorch {torch.__version__.partition("+")[0]}'s operator database run on the
        device in eager mode and under `torch.compile(fullgraph=True)`, forward and backward, from
        the same random state. A case is an operator in one dtype; it passes where every result and
        gradient agrees within `torch.testing.assert_close`'s tolerance, or is as near to the CPU's
        in float64 as eager mode's is (`torch._dynamo.utils.same`), and where nothing is a CPU
        fallback in the graph that is none in eager mode. Samples that eager mode refuses are left
        out.""",
        f"""**{passed} of {len(done)} cases pass ({share:.2f} %).** {len(expected)} fail for the
        reasons below, {len(failed)} fail otherwise.""",
    ]
    return "\n".join(
        [
            "# Conformance of torch.compile\n",
            *(fill(" ".join(text.split()), 100) + "\n" for text in paragraphs),
            samples_by_dtype(results),
            listed("Expected failures", expected),
            listed("Failures", failed),
        ]
    )
