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
program_piece     a piece as programs, one for each shape
eager_piece       a piece operator by operator
costing           a piece for the cost model
failures          errors and warnings
"""
