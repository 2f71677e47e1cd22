"""The neighbourhood graph: build it, connect it, measure geodesics over it, diagnose it."""

from nearfold.graph.bridges import OutsideSearch, spanning_edges
from nearfold.graph.build import Graph, from_edges, graph_of_lists, neighbourhood_graph
from nearfold.graph.connect import POLICIES, ConnectedGraph, apply_policy, side_by_side
from nearfold.graph.paths import all_geodesics, tree_from

__all__ = [
    "POLICIES",
    "ConnectedGraph",
    "Graph",
    "OutsideSearch",
    "all_geodesics",
    "apply_policy",
    "from_edges",
    "graph_of_lists",
    "neighbourhood_graph",
    "side_by_side",
    "spanning_edges",
    "tree_from",
]
