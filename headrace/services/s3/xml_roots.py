"""The XML root elements of S3's responses that differ from the output's name in botocore's model.

SDKs ignore the root element, but programs that read the XML themselves may not. Each root is documented at
https://docs.aws.amazon.com/AmazonS3/latest/API/API_<operation>.html, except that of GetObjectAttributes, which is
observed in AWS's recorded answers (the documentation shows `GetObjectAttributesOutput`).
"""

from __future__ import annotations

import re

_ROOTS = {
    "GetBucketAccelerateConfiguration": b"AccelerateConfiguration",
    "GetBucketRequestPayment": b"RequestPaymentConfiguration",
    "GetBucketVersioning": b"VersioningConfiguration",
    "GetBucketWebsite": b"WebsiteConfiguration",
    "GetObjectAttributes": b"GetObjectAttributesResponse",
    "ListBucketAnalyticsConfigurations": b"ListBucketAnalyticsConfigurationResult",
    "ListBucketIntelligentTieringConfigurations": b"ListBucketIntelligentTieringConfigurationsOutput",
    "ListBucketInventoryConfigurations": b"ListInventoryConfigurationsResult",
    "ListBucketMetricsConfigurations": b"ListMetricsConfigurationsResult",
    "ListParts": b"ListPartsResult",
}
_FIRST = re.compile(rb"<([A-Za-z]+)(?=[ />])")


def add_root(operation: str, body: bytes) -> bytes:
    """Return the XML of a response with AWS's root element."""
    root = _ROOTS.get(operation)
    match = _FIRST.search(body)
    if root is None or match is None:
        return body
    name = match[1]
    end = b"</" + name + b">"
    if body.rstrip().endswith(end):
        body = body.rstrip()[: -len(end)] + b"</" + root + b">"
    return body[: match.start(1)] + root + body[match.end(1) :]
