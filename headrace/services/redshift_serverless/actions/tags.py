"""Tags of namespaces and workgroups."""

from __future__ import annotations

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import redshift_serverless as shapes
from headrace.services.redshift_serverless.backend import RedshiftServerless, tags_of


@operation("TagResource")
def tag_resource(
    serverless: RedshiftServerless, call: Call, request: shapes.TagResourceRequest
) -> None:
    """Add tags, or overwrite the values of existing ones. Source: API_TagResource."""
    serverless.tag(call, request["resourceArn"], tags_of(request))


@operation("UntagResource")
def untag_resource(
    serverless: RedshiftServerless, call: Call, request: shapes.UntagResourceRequest
) -> None:
    """Remove tags; a missing tag is not an error. Source: API_UntagResource."""
    serverless.untag(call, request["resourceArn"], request["tagKeys"])


@operation("ListTagsForResource")
def list_tags_for_resource(
    serverless: RedshiftServerless, call: Call, request: shapes.ListTagsForResourceRequest
) -> shapes.ListTagsForResourceResponse:
    """Return a resource's tags. Source: API_ListTagsForResource."""
    tags = serverless.tags(call, request["resourceArn"])
    return {"tags": [{"key": key, "value": value} for key, value in tags.items()]}
