"""How far predicted times are from published measurements.

- `trace`: what a device is asked to run by a PyTorch program on meta tensors.
- `models`: the programs of the measurements, as ordinary PyTorch without weights.
- `workload`: recorded programs evaluated by the cost model.
- `exclusions`, `reservations`: which rows are not predicted, or not claimed, and why.
- `rows`: measurements read from a table and mapped to workloads by general rules.
- `report`: docs/accuracy.md.
"""
