"""Orders a dependency graph (node to the nodes it depends on), as pure functions in linear time."""

from __future__ import annotations

from collections.abc import Mapping, Set

from headrace.services.cloudformation.errors import TemplateError


def in_order(graph: Mapping[str, Set[str]]) -> list[str]:
    """Return the nodes, each after its dependencies, without nodes in a cycle or dependent on one."""
    left = {node: sum(other in graph for other in others) for node, others in graph.items()}
    dependents_of = reverse(graph)
    order = [node for node, count in left.items() if not count]
    for node in order:  # the list grows meanwhile
        for dependent in dependents_of[node]:
            left[dependent] -= 1
            if not left[dependent]:
                order.append(dependent)
    return order


def in_circles(graph: Mapping[str, Set[str]]) -> list[str]:
    """Return the nodes that are in a cycle or depend on one, sorted."""
    return sorted(set(graph) - set(in_order(graph)))


def check_acyclic(graph: Mapping[str, Set[str]]) -> None:
    """Raise TemplateError, with the nodes' names, when the graph has a cycle."""
    left = in_circles(graph)
    if left:
        raise TemplateError(f"Circular dependency between resources: [{', '.join(left)}]")


def reverse(graph: Mapping[str, Set[str]]) -> dict[str, set[str]]:
    """Return the reversed graph, in which a node comes after the nodes that depend on it: the order of deletion."""
    turned: dict[str, set[str]] = {node: set() for node in graph}
    for node, others in graph.items():
        for other in others:
            if other in turned:
                turned[other].add(node)
    return turned
