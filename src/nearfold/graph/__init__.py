"""The neighbourhood graph: build it, connect it, measure geodesics over it, diagnose it."""

from nearfold.graph.build import Graph, from_edges, graph_of_lists, neighbourhood_graph
from nearfold.graph.connect import POLICIES, Settled, Surroundings, settle
from nearfold.graph.paths import all_geodesics, tree_from

__all__ = [
    "POLICIES",
    "Graph",
    "Settled",
    "Surroundings",
    "all_geodesics",
    "from_edges",
    "graph_of_lists",
    "neighbourhood_graph",
    "settle",
    "tree_from",
]
