"""The labels and messages in answers of GetMetricData."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import functools
from typing import Any


def labelled(get: Any) -> Any:
    """Label metrics as AWS does: by their names, and by statistics and periods where these differ (observed)."""

    @functools.wraps(get)
    def get_metric_data(self: Any, queries: list[dict[str, Any]], *args: Any, **named: Any) -> Any:
        stats = [query["MetricStat"] for query in queries]
        differ = [name for name in ("Stat", "Period") if len({str(one[name]) for one in stats}) > 1]
        labels = {
            query["Id"]: query.get("Label")
            or " ".join([stat["Metric"]["MetricName"], *(str(stat[name]) for name in differ)])
            for query, stat in zip(queries, stats, strict=True)
        }
        results = get(self, queries, *args, **named)
        return [{**one, "label": labels[one["id"]]} for one in results]

    return get_metric_data


def with_messages(get: Any) -> Any:
    """Answer the list of messages, of which headrace has none (observed)."""

    @functools.wraps(get)
    def get_metric_data(self: Any) -> Any:
        answer = get(self)
        answer.result.setdefault("Messages", [])
        return answer

    return get_metric_data
