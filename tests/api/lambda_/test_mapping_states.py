"""Event source mappings are in use while they change: for `--state-delay` seconds, by default not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.clock import ShiftedClock
from tests.support.cloud import InProcessCloud
from tests.support.lambda_lab import ROLE, zipped

DELAY_MS = 600_000


def _refusal(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error: Any = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_a_mapping_in_use_is_neither_changed_nor_deleted(tmp_path: Path) -> None:
    clock = ShiftedClock()
    with InProcessCloud(tmp_path / "data", clock=clock, state_delay_ms=DELAY_MS) as cloud:
        lambda_, sqs = cloud.client("lambda"), cloud.client("sqs")
        sqs.create_queue(QueueName="q")
        lambda_.create_function(
            FunctionName="f",
            Runtime="python3.12",
            Role=ROLE,
            Handler="m.h",
            Code={"ZipFile": zipped({"m.py": "def h(event, context): return None"})},
        )
        mapping = lambda_.create_event_source_mapping(
            FunctionName="f", EventSourceArn="arn:aws:sqs:us-east-1:000000000000:q"
        )
        uuid = mapping["UUID"]
        for verb, call in (
            ("update", lambda_.update_event_source_mapping),
            ("delete", lambda_.delete_event_source_mapping),
        ):
            assert lambda_.get_event_source_mapping(UUID=uuid)["State"] == "Creating"
            assert _refusal(call, UUID=uuid) == (
                "ResourceInUseException",
                f"Cannot {verb} the event source mapping because it is in use.",
            )
        clock.advance(DELAY_MS / 1000)
        assert lambda_.get_event_source_mapping(UUID=uuid)["State"] == "Enabled"
        assert lambda_.update_event_source_mapping(UUID=uuid, Enabled=False)["State"] == "Disabling"
        assert _refusal(lambda_.delete_event_source_mapping, UUID=uuid)[0] == (
            "ResourceInUseException"
        )
        clock.advance(DELAY_MS / 1000)
        assert lambda_.delete_event_source_mapping(UUID=uuid)["State"] == "Deleting"
        listed = lambda_.list_event_source_mappings()["EventSourceMappings"]
        assert [one["State"] for one in listed] == ["Deleting"]
        clock.advance(DELAY_MS / 1000)
        assert lambda_.list_event_source_mappings()["EventSourceMappings"] == []
        assert _refusal(lambda_.get_event_source_mapping, UUID=uuid)[0] == (
            "ResourceNotFoundException"
        )
