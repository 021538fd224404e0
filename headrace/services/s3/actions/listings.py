"""ListObjects, ListObjectsV2 and ListObjectVersions: pages of keys, rolled up at a delimiter."""

import base64
import binascii
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote

from headrace.aws.operation import Call, operation
from headrace.aws.shapes.s3 import (
    ListObjectsInput,
    ListObjectsOutput,
    ListObjectsV2Input,
    ListObjectsV2Output,
    ListObjectVersionsInput,
    ListObjectVersionsOutput,
    Object,
    ObjectVersion,
)
from headrace.core.values import moment
from headrace.services.s3 import limits
from headrace.services.s3.actions.owner import OWNER
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import invalid_argument
from headrace.services.s3.state import StoredObject

_Request = ListObjectsInput | ListObjectsV2Input | ListObjectVersionsInput


@dataclass(slots=True)
class Page:
    """A page: objects and common prefixes; `more_after` is the last of them when more pages follow."""

    objects: list[StoredObject]
    prefixes: list[str]
    more_after: str | None


def page_of(
    objects: Iterable[StoredObject], prefix: str, delimiter: str, after: str, limit: int
) -> Page:
    """Return the page of `objects` (in key order) that follows `after`, a key or a common prefix."""
    page = Page([], [], None)
    last = ""
    if limit == 0:
        return page
    for stored in objects:
        key = stored.key
        rolled = ""
        if delimiter:
            head, found, _ = key[len(prefix) :].partition(delimiter)
            rolled = prefix + head + delimiter if found else ""
        name = rolled or key
        # After a page that ends in a common prefix, skip all keys with that prefix.
        if key <= after or (rolled and rolled <= after) or name == last:
            continue
        if len(page.objects) + len(page.prefixes) >= limit:
            page.more_after = last
            return page
        if rolled:
            page.prefixes.append(rolled)
        else:
            page.objects.append(stored)
        last = name
    return page


def _limit(request: _Request) -> int:
    limit = request.get("MaxKeys")
    if limit is None:
        return limits.LIST_KEYS
    if limit < 0:
        raise invalid_argument("Argument maxKeys must be an integer between 0 and 2147483647")
    return min(limit, limits.LIST_KEYS)


def _content(stored: StoredObject, encode: Callable[[str], str], *, owner: bool) -> Object:
    value: Object = {
        "Key": encode(stored.key),
        "LastModified": moment(stored.last_modified_ms),
        "ETag": f'"{stored.etag}"',
        "Size": stored.size_bytes,
        "StorageClass": "STANDARD",
    }
    if owner:
        value["Owner"] = OWNER
    return value


def _encoder(request: _Request) -> Callable[[str], str]:
    encoding = request.get("EncodingType")
    if encoding not in (None, "", "url"):
        raise invalid_argument(
            "Invalid Encoding Method specified in Request", "encoding-type", encoding
        )
    return functools.partial(quote, safe="/") if encoding else str


def _common(request: _Request, page: Page, encode: Callable[[str], str]) -> ListObjectsOutput:
    """Return the members that all listings have."""
    value: ListObjectsOutput = {
        "Name": request["Bucket"],
        "Prefix": encode(request.get("Prefix") or ""),
        "MaxKeys": _limit(request),
        "IsTruncated": page.more_after is not None,
    }
    if page.prefixes:
        value["CommonPrefixes"] = [{"Prefix": encode(prefix)} for prefix in page.prefixes]
    delimiter, encoding = request.get("Delimiter"), request.get("EncodingType")
    if delimiter:
        value["Delimiter"] = encode(delimiter)
    if encoding:
        value["EncodingType"] = encoding
    return value


def _page(s3: S3, request: _Request, after: str) -> Page:
    s3.bucket(request["Bucket"])
    prefix, delimiter = request.get("Prefix") or "", request.get("Delimiter") or ""
    objects = s3.files.scan(request["Bucket"], prefix, after=after, roll=delimiter == "/")
    return page_of(objects, prefix, delimiter, after, _limit(request))


@operation("ListObjectsV2")
def list_objects_v2(s3: S3, call: Call, request: ListObjectsV2Input) -> ListObjectsV2Output:
    """Return a page of keys. Source: API_ListObjectsV2."""
    token = request.get("ContinuationToken")
    after = request.get("StartAfter") or ""
    if token is not None:
        try:
            if not token:
                raise ValueError("an empty token")
            after = base64.b64decode(token, altchars=b"-_", validate=True).decode()
        except (binascii.Error, ValueError) as error:
            raise invalid_argument(
                "The continuation token provided is incorrect", "continuation-token", token
            ) from error
    page = _page(s3, request, after)
    encode = _encoder(request)
    answer = cast("ListObjectsV2Output", _common(request, page, encode))
    owner = bool(request.get("FetchOwner"))
    answer["Contents"] = [_content(stored, encode, owner=owner) for stored in page.objects]
    answer["KeyCount"] = len(page.objects) + len(page.prefixes)
    if token is not None:
        answer["ContinuationToken"] = token
    start_after = request.get("StartAfter")
    if start_after:
        answer["StartAfter"] = encode(start_after)
    if page.more_after is not None:
        answer["NextContinuationToken"] = base64.urlsafe_b64encode(
            page.more_after.encode()
        ).decode()
    return answer


@operation("ListObjects")
def list_objects(s3: S3, call: Call, request: ListObjectsInput) -> ListObjectsOutput:
    """Return a page of keys; the older form of ListObjectsV2. Source: API_ListObjects."""
    page = _page(s3, request, request.get("Marker") or "")
    encode = _encoder(request)
    answer = _common(request, page, encode)
    answer["Marker"] = encode(request.get("Marker") or "")
    answer["Contents"] = [_content(stored, encode, owner=True) for stored in page.objects]
    if page.more_after is not None and request.get("Delimiter"):
        answer["NextMarker"] = encode(page.more_after)
    return answer


@operation("ListObjectVersions")
def list_object_versions(
    s3: S3, call: Call, request: ListObjectVersionsInput
) -> ListObjectVersionsOutput:
    """Return a page of keys; each has the one version `null`. Source: API_ListObjectVersions."""
    page = _page(s3, request, request.get("KeyMarker") or "")
    encode = _encoder(request)
    answer = cast("ListObjectVersionsOutput", _common(request, page, encode))
    answer["KeyMarker"] = encode(request.get("KeyMarker") or "")
    answer["Versions"] = [
        cast(
            "ObjectVersion",
            {**_content(stored, encode, owner=True), "VersionId": "null", "IsLatest": True},
        )
        for stored in page.objects
    ]
    if page.more_after is not None:
        answer["NextKeyMarker"] = encode(page.more_after)
        answer["NextVersionIdMarker"] = "null"
    return answer
