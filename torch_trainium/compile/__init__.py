"""torch.compile on the device: the Dynamo backend "neuron".

registration      what Dynamo is told once it is imported
router            the backend of who names none
device_interface  the device as Dynamo asks for it
inductor          Inductor's refusal
options           mode and options
backend           from Dynamo's graph to callables
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
failures          errors and warnings
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch_trainium.compile.explanation import Explanation as Explanation
    from torch_trainium.compile.explanation import explain as explain

__all__ = ["Explanation", "explain"]


def __getattr__(name: str) -> Any:
    """Load what needs Dynamo when it is asked for: importing that takes longer than torch."""
    if name in __all__:
        from torch_trainium.compile import explanation

        return getattr(explanation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
