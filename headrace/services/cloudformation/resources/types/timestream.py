"""Timestream: databases and tables."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType

DECLARED = [
    DeclaredType(
        "AWS::Timestream::Database",
        "timestream-write",
        create=[Call("CreateDatabase")],
        id="DatabaseName",
        read=Call("DescribeDatabase", {"DatabaseName": "@id"}),
        update=[Call("UpdateDatabase", {"DatabaseName": "@id"})],
        delete=[Call("DeleteDatabase", {"DatabaseName": "@id"})],
        name="DatabaseName",
        name_length=256,
        tag=("TagResource", "UntagResource", "ResourceARN", "@answer.Database.Arn"),
    ),
    DeclaredType(
        "AWS::Timestream::Table",
        "timestream-write",
        create=[Call("CreateTable")],
        id=lambda v: f"{v.get('DatabaseName')}|{v.get('TableName')}",
        read=Call("DescribeTable", {"DatabaseName": "DatabaseName", "TableName": "TableName"}),
        update=[Call("UpdateTable", {"DatabaseName": "DatabaseName", "TableName": "TableName"})],
        delete=[Call("DeleteTable", {"DatabaseName": "DatabaseName", "TableName": "TableName"})],
        name="TableName",
        name_length=256,
        attributes={"Name": "TableName"},
        tag=("TagResource", "UntagResource", "ResourceARN", "@answer.Table.Arn"),
    ),
]
