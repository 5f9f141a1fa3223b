"""`torch.neuron.report`: where the time of a program goes, as one HTML page."""

import sys
from os import PathLike
from pathlib import Path

from torch_trainium.neuron.virtual_time import Timeline


def report(
    path: str | PathLike[str], scope: Timeline, *, title: str | None = None, steps: int = 1
) -> Path:
    """Write an HTML page about a closed `torch.neuron.timeline()` scope, and return its path.

    The page needs no network and no other file: step time, where the time goes, engines,
    modules, roofline, memory over time, the most expensive lines, operators and CPU fallbacks.
    `steps` is how many equal steps ran in the scope; `title` is the program's name if None::

        with torch.neuron.timeline() as scope:
            for _ in range(3):
                train_step()
        torch.neuron.report("report.html", scope, steps=3)

    The same program gives the same page.

    Raises:
        RuntimeError: the scope is still open, or was never one.
        TypeError: `steps` is no integer.
        ValueError: `steps` is less than one.

    """
    from torch_trainium.neuron.timeline_view.page import write_report
    from torch_trainium.neuron.timeline_view.roofline import core_peaks

    if not isinstance(steps, int):
        raise TypeError(f"steps={steps!r} is not valid: it is a number of steps, 1 or more")
    snapshot = scope.closed_snapshot()
    peaks = core_peaks(snapshot.chip, snapshot.logical_core_size)
    if title is None:
        title = Path(sys.argv[0]).name or "Interactive session"
    write_report(snapshot, path, peaks, title=title, steps=steps)
    return Path(path)
