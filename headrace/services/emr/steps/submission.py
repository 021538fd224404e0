"""Reads the job from a step and its cluster: the `spark-submit` command and the configuration classifications."""

from __future__ import annotations

from typing import Any

from headrace.core.values import get_list, get_mapping
from headrace.services.emr.state import Cluster, Step
from headrace.spark_submit.arguments import Submission, parse_submission


def spark_submission(cluster: Cluster, step: Step) -> tuple[Submission, dict[str, str]] | None:
    """Return a step's `spark-submit` and the spark-defaults; None for other commands. Raises JobRefused."""
    if step.jar.rpartition("/")[2] != "command-runner.jar":
        return None
    program, *arguments = runner_arguments(step) or [""]
    if program not in ("spark-submit", "spark-example"):
        return None
    return parse_submission(arguments), classification(cluster, "spark-defaults")


def runner_arguments(step: Step) -> list[str]:
    """Return the command that command-runner.jar runs: it leaves out empty arguments (observed: Yelp/mrjob #2070)."""
    return [argument for argument in step.args if argument]


def classification(cluster: Cluster, *path: str) -> dict[str, str]:
    """Return the properties of a nested classification of the cluster's Configurations."""
    configurations: list[Any] = cluster.request.get("Configurations") or []
    properties: dict[str, str] = {}
    for name in path:
        matching = [c for c in configurations if c.get("Classification") == name]
        properties = {k: str(v) for c in matching for k, v in get_mapping(c, "Properties").items()}
        configurations = [n for c in matching for n in get_list(c, "Configurations")]
    return properties
