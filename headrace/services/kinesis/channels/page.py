"""The page of channels: how many records of each are delivered, and how many wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.aws.protocols.service import DataPage
from headrace.core.clock import Clock
from headrace.services.kinesis.channels.channels import Channels
from headrace.services.kinesis.channels.orders import ChannelOrder


def channels_page(channels: Channels, clock: Clock) -> DataPage:
    """Return the page."""

    def data(_: Mapping[str, str]) -> list[dict[str, Any]]:
        now_ms = clock.now_ms()
        return [_row(order, channels, now_ms) for order in channels.all()]

    return DataPage("kinesis/channels", "Kinesis: each channel's deliveries (JSON)", data)


def _row(order: ChannelOrder, channels: Channels, now_ms: int) -> dict[str, Any]:
    channel = order.channel
    return {
        "name": channel.name,
        "arn": channel.arn,
        "account": channel.account,
        "region": channel.region,
        "stream": order.stream.name,
        "status": channel.status(now_ms),
        "reason": channel.reason,
        **(channels.status_of_delivery(order) or {}),
    }
