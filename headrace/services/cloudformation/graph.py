"""The order of things: a dependency graph, as pure functions."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.services.cloudformation.errors import TemplateError


def check_acyclic(graph: Mapping[str, set[str]]) -> None:
    """Raise TemplateError, naming who is in it, when `graph` (node to what it needs) has a circle."""
    left = {node: set(needs) & set(graph) for node, needs in graph.items()}
    while True:
        free = [node for node, needs in left.items() if not needs]
        if not free:
            break
        for node in free:
            del left[node]
        for needs in left.values():
            needs.difference_update(free)
    if left:
        raise TemplateError(f"Circular dependency between resources: [{', '.join(sorted(left))}]")


def reverse(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the graph for deleting: each node needs those gone that needed it."""
    turned: dict[str, set[str]] = {node: set() for node in graph}
    for node, needs in graph.items():
        for need in needs:
            if need in turned:
                turned[need].add(node)
    return turned
