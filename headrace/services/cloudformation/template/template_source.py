"""Finds a request's template text: its TemplateBody, or the object that its TemplateURL names in this cloud's S3."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from headrace.aws.shapes.cloudformation import (
    CreateChangeSetInput,
    CreateStackInput,
    CreateStackSetInput,
    GetTemplateSummaryInput,
    UpdateStackInput,
    UpdateStackSetInput,
    ValidateTemplateInput,
)
from headrace.core.ports import BucketNotFound, ObjectNotFound, ObjectStore
from headrace.services.cloudformation import limits
from headrace.services.cloudformation.errors import TemplateError, too_long

TemplateRequest = (
    CreateStackInput
    | UpdateStackInput
    | CreateChangeSetInput
    | CreateStackSetInput
    | UpdateStackSetInput
    | ValidateTemplateInput
    | GetTemplateSummaryInput
)

_HOST_STYLE = re.compile(r"(?P<bucket>.+?)\.s3[.-].*")
_PATH_STYLE = re.compile(r"s3[.-].*")


def template_text(request: TemplateRequest, objects: ObjectStore, endpoint_url: str) -> str:
    """Return the template text that a request contains or links to. Raises TemplateError."""
    body, url = request.get("TemplateBody"), request.get("TemplateURL")
    if body and url:
        raise TemplateError("You cannot specify both Template URL and Template Body")
    if body:
        text = str(body)
        if refusal := too_long(text, "templateBody", limits.BODY_BYTES):
            raise refusal
        return text
    if not url:
        raise TemplateError("Either Template URL or Template Body must be specified.")
    return object_text(str(url), objects, endpoint_url)


def read_included_text(url: str, objects: ObjectStore, endpoint_url: str) -> str:
    """Return the text that AWS::Include inserts. Raises TemplateError, which names a missing bucket (recorded)."""
    bucket, key = _bucket_and_key(url, endpoint_url)
    try:
        objects.file(bucket, key)
    except BucketNotFound as error:
        raise TemplateError(f"S3 bucket [{bucket}] does not exist.") from error
    except ObjectNotFound as error:
        raise TemplateError("The specified key does not exist.") from error  # assumed
    return object_text(url, objects, endpoint_url)


def object_text(url: str, objects: ObjectStore, endpoint_url: str) -> str:
    """Return the text of the object at an S3 address. Raises TemplateError."""
    bucket, key = _bucket_and_key(url, endpoint_url)
    try:
        # The size is checked first: an object may have terabytes.
        if objects.file(bucket, key).stat().st_size > limits.URL_BODY_BYTES:
            raise TemplateError(f"Template may not exceed {limits.URL_BODY_BYTES} bytes in size.")
        return objects.get(bucket, key).decode("utf-8-sig")
    except (BucketNotFound, ObjectNotFound, FileNotFoundError) as error:
        raise TemplateError(
            "S3 error: The specified key does not exist. For more information check"
            " http://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html"
        ) from error
    except UnicodeDecodeError as error:
        raise TemplateError(f"Template format error: {url} is not text.") from error


def _bucket_and_key(url: str, endpoint_url: str) -> tuple[str, str]:
    """Return (bucket, key) of an S3 address, path-style or host-style. Raises TemplateError."""
    parts = urlsplit(url)
    path = unquote(parts.path.lstrip("/"))
    host = parts.hostname or ""
    if parts.scheme == "s3":  # recorded
        raise TemplateError(f"S3 error: Domain name specified in {host} is not a valid S3 domain")
    if parts.scheme in ("http", "https"):
        host_style = _HOST_STYLE.fullmatch(host)
        if host_style is not None:
            return host_style.group("bucket"), path
        if (
            _PATH_STYLE.fullmatch(host)
            or host == urlsplit(endpoint_url).hostname
            or host == "localhost"
        ):
            bucket, _, key = path.partition("/")
            return bucket, key
    raise TemplateError("TemplateURL must be a supported URL.")
