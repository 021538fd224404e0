"""What aws-cdk-lib 2.275's L2 constructs of Firehose synthesise deploys: every processor and option of an S3 bucket.

`streams_of_cdk.json` is the output of `S3Bucket` with its processors, names in the place of references.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.testing.waiting import until
from tests.support.cloud import InProcessCloud

TEMPLATE = Path(__file__).with_name("streams_of_cdk.json")


def test_the_l2_constructs_streams_deploy_with_all_their_processors(tmp_path: Path):
    pytest.importorskip("jq", reason="JQ 1.6 has no wheel for this Python")
    with InProcessCloud(tmp_path / "data") as cloud:
        formation = cloud.client("cloudformation")
        formation.create_stack(StackName="s", TemplateBody=TEMPLATE.read_text())

        def status() -> str:
            return formation.describe_stacks(StackName="s")["Stacks"][0]["StackStatus"]

        until(lambda: not status().endswith("IN_PROGRESS"))
        assert status() == "CREATE_COMPLETE"
        firehose = cloud.client("firehose")
        kinds: dict[str, list[str]] = {}
        for name in firehose.list_delivery_streams()["DeliveryStreamNames"]:
            found = firehose.describe_delivery_stream(DeliveryStreamName=name)
            described = found["DeliveryStreamDescription"]["Destinations"][0]
            processing = described["ExtendedS3DestinationDescription"]["ProcessingConfiguration"]
            logical = name.split("-")[1]
            kinds[logical] = [processor["Type"] for processor in processing["Processors"]]
        assert kinds == {
            "Partitioned": ["RecordDeAggregation", "MetadataExtraction", "AppendDelimiterToRecord"],
            "Logs": ["Decompression", "CloudWatchLogProcessing", "AppendDelimiterToRecord"],
            "Changed": ["Lambda"],
        }
