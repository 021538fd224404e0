"""Refuses CloudWatch Logs' requests as AWS does, and looks for log groups by a pattern (sentences recorded).

Each check runs before a method of moto's responses, which then handles the valid requests.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import json
from typing import Any

# What AWS answers of a group that is found by a pattern (recorded).
_OF_A_PATTERN = ("arn", "creationTime", "logGroupName")


def patch() -> None:
    """Replace moto's methods; called once."""
    from moto.logs.models import LogGroup
    from moto.logs.responses import LogsResponse

    response: Any = LogsResponse
    response.describe_log_groups = _by_pattern(response.describe_log_groups)
    response.describe_log_streams = _with_one_group(response.describe_log_streams)
    group: Any = LogGroup
    group.get_log_events = _with_stream(group.get_log_events)


def _by_pattern(describe_log_groups: Any) -> Any:
    """Look for the groups whose names contain a text, case-sensitively (documented: API_DescribeLogGroups)."""

    @functools.wraps(describe_log_groups)
    def describe(self: Any) -> str:
        from moto.logs.exceptions import InvalidParameterException

        pattern = self._get_param("logGroupNamePattern")
        if not pattern:
            return describe_log_groups(self)
        if self._get_param("logGroupNamePrefix"):
            raise InvalidParameterException(
                "LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters."
            )
        groups = [group.to_describe_dict() for group in self.logs_backend.groups.values()]
        described = [
            {name: group[name] for name in _OF_A_PATTERN}
            for group in sorted(groups, key=lambda group: group["logGroupName"])
            if pattern in group["logGroupName"]
        ]
        return json.dumps({"logGroups": described})

    return describe


def _with_one_group(describe_log_streams: Any) -> Any:
    @functools.wraps(describe_log_streams)
    def describe(self: Any) -> str:
        from moto.logs.exceptions import ValidationException

        if self._get_param("logGroupName") and self._get_param("logGroupIdentifier"):
            raise ValidationException(
                "LogGroup name and LogGroup ARN are mutually exclusive parameters."
            )
        return describe_log_streams(self)

    return describe


def _with_stream(get_log_events: Any) -> Any:
    @functools.wraps(get_log_events)
    def get(self: Any, log_stream_name: str, *args: Any, **named: Any) -> Any:
        from moto.logs.exceptions import ResourceNotFoundException

        if log_stream_name not in self.streams:
            raise ResourceNotFoundException("The specified log stream does not exist.")
        return get_log_events(self, log_stream_name, *args, **named)

    return get
