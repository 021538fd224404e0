"""Makes a channel's CloudWatch metrics, once a minute.

Names, dimensions and units: data-delivery-monitoring.md (documented).
"""

from __future__ import annotations

from headrace.core.ports import Metric
from headrace.services.kinesis.channels.orders import ChannelOrder

_UNITS = {"DataFreshness": "Seconds"}


def channel_metrics(order: ChannelOrder, namespace: str, minute_ms: int) -> list[Metric]:
    """Return the metrics of the minute that began at `minute_ms`; a channel that did nothing has none (assumed)."""
    channel = order.channel
    return [
        Metric(
            namespace=namespace,
            name=f"DeliveryTo{'Iceberg' if channel.table else 'S3'}.{name}",
            value=stat.total,
            unit="Bytes" if name.startswith("Bytes") else _UNITS.get(name, "Count"),
            dimensions=(
                ("ChannelId", channel.channel_id),
                ("ChannelName", channel.name),
                ("StreamName", order.stream.name),
            ),
            timestamp_ms=minute_ms,
            statistics=(stat.count, stat.total, stat.least, stat.most),
        )
        for name, stat in sorted(order.take_stats().items())
    ]
