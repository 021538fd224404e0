"""The order of things: a dependency graph (node to what it needs), as pure functions in linear time."""

from __future__ import annotations

from collections.abc import Mapping, Set

from headrace.services.cloudformation.errors import TemplateError


def in_order(graph: Mapping[str, Set[str]]) -> list[str]:
    """Return the nodes with what others need first; those in a circle, and what needs them, are left out."""
    left = {node: sum(need in graph for need in needs) for node, needs in graph.items()}
    needed_by = reverse(graph)
    order = [node for node, count in left.items() if not count]
    for node in order:  # grows as it is gone through
        for dependent in needed_by[node]:
            left[dependent] -= 1
            if not left[dependent]:
                order.append(dependent)
    return order


def in_circles(graph: Mapping[str, Set[str]]) -> list[str]:
    """Return the nodes that are in a circle, or need one that is, sorted."""
    return sorted(set(graph) - set(in_order(graph)))


def check_acyclic(graph: Mapping[str, Set[str]]) -> None:
    """Raise TemplateError, naming who is in it, when the graph has a circle."""
    left = in_circles(graph)
    if left:
        raise TemplateError(f"Circular dependency between resources: [{', '.join(left)}]")


def reverse(graph: Mapping[str, Set[str]]) -> dict[str, set[str]]:
    """Return the graph for deleting: each node needs those gone that needed it."""
    turned: dict[str, set[str]] = {node: set() for node in graph}
    for node, needs in graph.items():
        for need in needs:
            if need in turned:
                turned[need].add(node)
    return turned
