"""Streams of video, and file systems."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declared import Call, Declared

TYPES = [
    Declared(
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
    Declared(
        "AWS::EFS::FileSystem",
        "efs",
        create=[Call("CreateFileSystem")],
        id="@answer.FileSystemId",
        read=Call("DescribeFileSystems", {"FileSystemId": "@id"}),
        delete=[Call("DeleteFileSystem", {"FileSystemId": "@id"})],
    ),
]
