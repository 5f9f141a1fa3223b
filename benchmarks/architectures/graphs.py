"""Message passing between the nodes of a graph."""

import torch

from .workload import Workload

CLASSES = 16


def graph_sage(width: int, layers: int, nodes: int, edges: int) -> Workload:
    """Classes of the (nodes, width) vertices of a random graph with (2, edges) edges."""
    from torch_geometric.nn import GraphSAGE

    inputs = {"x": torch.randn(nodes, width), "edge_index": torch.randint(nodes, (2, edges))}
    model = GraphSAGE(width, width, layers, CLASSES)
    return Workload(model, inputs, torch.randint(CLASSES, (nodes,)))
