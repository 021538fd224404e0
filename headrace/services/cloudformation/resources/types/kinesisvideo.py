"""Kinesis Video's streams."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType

DECLARED = [
    DeclaredType(
        "AWS::KinesisVideo::Stream",
        "kinesisvideo",
        create=[Call("CreateStream", {"StreamName": "Name"})],
        id="Name",
        read=Call("DescribeStream", {"StreamName": "@id"}),
        delete=[Call("DeleteStream", {"StreamARN": "@answer.StreamInfo.StreamARN"})],
        name="Name",
        name_length=256,
        attributes={"Arn": "@answer.StreamInfo.StreamARN"},
    ),
]
