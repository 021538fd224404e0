"""AWS's rules about topics and topic filters: lengths, depth, and the reserved ones.

Documented: docs.aws.amazon.com/general/latest/gr/iot-core.html (message broker quotas) and
docs.aws.amazon.com/iot/latest/developerguide/reserved-topics.html.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from headrace.services.iot.mqtt.packets import BAD_FILTER, BAD_TOPIC, NOT_IMPLEMENTED, MqttError
from headrace.services.iot.mqtt.sessions import split_share
from headrace.services.iot.rules import TO_RULE
from headrace.services.iot.sql import filter_matches

__all__ = ["check_filter", "check_topic", "filter_matches", "publish_json", "shadow_request"]

MOST_BYTES, MOST_SLASHES = 256, 7
MOST_CLIENT_ID_BYTES = 128
MOST_PAYLOAD_BYTES = 128 * 1024
_SHADOW = re.compile(
    r"(\$aws/things/([A-Za-z0-9:_-]{1,128})/shadow(?:/name/([A-Za-z0-9:_-]{1,64}))?)/(get|update|delete)"
)


def check_topic(topic: str) -> None:
    """Raises MqttError for a topic to which AWS lets nobody publish, or that headrace does not serve."""
    if not topic or "+" in topic or "#" in topic:
        raise MqttError(BAD_TOPIC, f"{topic!r} is not a topic")
    if topic.startswith("$") and not topic.startswith(TO_RULE) and shadow_request(topic) is None:
        if topic.startswith("$aws/") and "/shadow/" not in topic:
            raise MqttError(
                NOT_IMPLEMENTED,
                f"headrace has no jobs, provisioning or other reserved topics of AWS: {topic}",
            )
        raise MqttError(BAD_TOPIC, f"{topic} is reserved")
    _check_size(BAD_TOPIC, _without_rule(topic))


def check_filter(topic_filter: str) -> None:
    """Raises MqttError for a filter to which AWS lets nobody subscribe."""
    if topic_filter.startswith("$share/") and not all(split_share(topic_filter)):
        raise MqttError(BAD_FILTER, f"{topic_filter} names no group and filter")
    _, plain = split_share(topic_filter)
    levels = plain.split("/")
    is_valid = bool(plain) and all(
        level == "+" or (level == "#" and at == len(levels) - 1) or not set(level) & {"+", "#"}
        for at, level in enumerate(levels)
    )
    if not is_valid:
        raise MqttError(BAD_FILTER, f"{topic_filter!r} is not a topic filter")
    _check_size(BAD_FILTER, plain)


def _without_rule(topic: str) -> str:
    """Return a topic without the name of the rule that it goes to, which does not count."""
    return topic.removeprefix(TO_RULE).partition("/")[2] if topic.startswith(TO_RULE) else topic


def _check_size(code: int, topic: str) -> None:
    if len(topic.encode()) > MOST_BYTES:
        raise MqttError(code, f"A topic has more than {MOST_BYTES} bytes")
    # Shadows' topics are reserved ones, which AWS does not count.
    if topic.count("/") > MOST_SLASHES and not topic.startswith("$aws/"):
        raise MqttError(code, f"A topic has more than {MOST_SLASHES} slashes: {topic}")


def shadow_request(topic: str) -> tuple[str, str, str | None, str] | None:
    """Return the prefix, thing, shadow (None: the classic one) and verb of a request to a shadow, else None."""
    match = _SHADOW.fullmatch(topic)
    return None if match is None else (match[1], match[2], match[3], match[4])


def publish_json(publish: Callable[[str, bytes], None], topic: str, value: Any) -> None:
    """Publish a JSON value."""
    publish(topic, json.dumps(value, separators=(",", ":")).encode())
