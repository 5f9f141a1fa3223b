"""torch.compile on the device: the Dynamo backend "neuron".

registration      what Dynamo is told once it is imported
router            the backend of who names none
device_interface  the device as Dynamo asks for it
inductor          Inductor's refusal
options           mode and options
backend           from Dynamo's graph to callables
passes            what is simplified before that
graph             a callable: pieces that run one after the other
partition         which nodes are programs, and which run eagerly
lower             a piece as StableHLO
interpret         its nodes, one after the other
graph_forms       operators that give something else there than in eager mode
higher_order      operators that take graphs, and what a program has for them
control_flow      branches and loops
flex_attention    PyTorch's formula of it
program_piece     a piece as programs, one for each shape
eager_piece       a piece operator by operator
user_frames       whose line such an operator is
fallbacks         which operators the chip has no program for
refusals          which operators are in no program, and why
costing           a piece for the cost model
buckets           few lengths for sequences of any length
artifacts         programs among those that PyTorch saves
ahead_of_time     exported programs and packages
failures          errors and warnings
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch_trainium.compile.ahead_of_time import AheadOfTime as AheadOfTime
    from torch_trainium.compile.ahead_of_time import load_package as load_package
    from torch_trainium.compile.buckets import BucketCollator as BucketCollator
    from torch_trainium.compile.buckets import bucket_of as bucket_of
    from torch_trainium.compile.explanation import Explanation as Explanation
    from torch_trainium.compile.explanation import explain as explain

# Where each is: what needs Dynamo is loaded when it is asked for, which takes longer than torch.
_MODULES = {
    "AheadOfTime": "ahead_of_time",
    "BucketCollator": "buckets",
    "Explanation": "explanation",
    "bucket_of": "buckets",
    "explain": "explanation",
    "load_package": "ahead_of_time",
}
__all__ = [
    "AheadOfTime",
    "BucketCollator",
    "Explanation",
    "bucket_of",
    "explain",
    "load_package",
]


def __getattr__(name: str) -> Any:
    """Load what is public when it is asked for."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
