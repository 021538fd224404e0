"""The processing stack with counting and bringing back switched on."""

from __future__ import annotations

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Match, Template

from cdk.app import new_app
from cdk.stacks.ingest import IngestStack
from cdk.stacks.processing import ProcessingStack


@pytest.fixture(scope="module")
def template() -> Template:
    app = new_app()
    ingest = IngestStack(app, "ingest")
    stack: Stack = ProcessingStack(
        app,
        "processing",
        flights=ingest.flights,
        enriched=ingest.enriched,
        aggregate=True,
        redrive=True,
    )
    return Template.from_stack(stack)


def test_departures_are_counted_in_windows_of_five_minutes(template: Template) -> None:
    template.has_resource_properties(
        "AWS::Lambda::EventSourceMapping",
        {"TumblingWindowInSeconds": 300, "FunctionResponseTypes": ["ReportBatchItemFailures"]},
    )
    template.has_resource_properties(
        "AWS::DynamoDB::Table",
        {
            "KeySchema": [
                {"AttributeName": "window", "KeyType": "HASH"},
                {"AttributeName": "carrier_shard", "KeyType": "RANGE"},
            ]
        },
    )


def test_the_failure_queue_triggers_the_redrive(template: Template) -> None:
    template.has_resource_properties(
        "AWS::Lambda::EventSourceMapping",
        {
            "EventSourceArn": {"Fn::GetAtt": [Match.string_like_regexp("EnrichFailures"), "Arn"]},
            "BatchSize": 10,
        },
    )
    template.has_output("BadRecordsQueueUrl", {})
