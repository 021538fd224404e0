"""ListObjects, ListObjectsV2 and ListObjectVersions: pages of keys, grouped into common prefixes by a delimiter."""

import base64
import binascii
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.s3 import (
    DeleteMarkerEntry,
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
from headrace.services.s3 import errors, object_headers
from headrace.services.s3.acls import OWNER
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import invalid_argument
from headrace.services.s3.history import ListedVersion
from headrace.services.s3.state import Marker, StoredObject

_Request = ListObjectsInput | ListObjectsV2Input | ListObjectVersionsInput


@dataclass(slots=True)
class Page:
    """A page of objects and common prefixes. `more_after` is the last of them if more pages follow, otherwise None."""

    objects: list[StoredObject]
    prefixes: list[str]
    more_after: str | None


def build_page(
    objects: Iterable[StoredObject], prefix: str, delimiter: str, after: str, limit: int
) -> Page:
    """Return the page of `objects` (sorted by key) that follows `after`, which is a key or a common prefix."""
    page = Page([], [], None)
    last = ""
    if limit == 0:
        return page
    for stored in objects:
        key = stored.key
        rolled = find_common_prefix(key, prefix, delimiter)
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


def find_common_prefix(key: str, prefix: str, delimiter: str) -> str:
    """Return the common prefix that replaces a key in a listing, or "" when the key itself is listed."""
    if not delimiter:
        return ""
    head, parts, _ = key[len(prefix) :].partition(delimiter)
    return prefix + head + delimiter if parts else ""


def _limit(request: _Request) -> int:
    limit = request.get("MaxKeys")
    if limit is None:
        return errors.LIST_KEYS
    if limit < 0:
        raise invalid_argument("Argument maxKeys must be an integer between 0 and 2147483647")
    return min(limit, errors.LIST_KEYS)


def _render_object(stored: StoredObject, encode: Callable[[str], str], *, owner: bool) -> Object:
    value: Object = {
        "Key": encode(stored.key),
        "LastModified": moment(stored.last_modified_ms),
        "ETag": f'"{stored.etag}"',
        "Size": stored.size_bytes,
        "StorageClass": stored.storage_class,
    }
    if stored.checksums:
        algorithms = [name.removeprefix("Checksum") for name in stored.checksums]
        value["ChecksumAlgorithm"] = algorithms
        value["ChecksumType"] = object_headers.find_checksum_type(stored)
    if owner:
        value["Owner"] = OWNER
    return value


def _find_encoder(request: _Request) -> Callable[[str], str]:
    encoding = request.get("EncodingType")
    if encoding not in (None, "", "url"):
        raise invalid_argument(
            "Invalid Encoding Method specified in Request", "encoding-type", encoding
        )
    return functools.partial(quote, safe="/") if encoding else str


def _render_common(
    request: _Request, page: Page, encode: Callable[[str], str]
) -> ListObjectsOutput:
    """Return the members that the responses of all listings have."""
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


def _find_page(s3: S3, request: _Request, after: str) -> Page:
    s3.bucket(request["Bucket"])
    prefix, delimiter = request.get("Prefix") or "", request.get("Delimiter") or ""
    objects = s3.files.scan(request["Bucket"], prefix, after=after, roll=delimiter == "/")
    return build_page(objects, prefix, delimiter, after, _limit(request))


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
    page = _find_page(s3, request, after)
    encode = _find_encoder(request)
    answer = cast("ListObjectsV2Output", _render_common(request, page, encode))
    owner = bool(request.get("FetchOwner"))
    answer["Contents"] = [_render_object(stored, encode, owner=owner) for stored in page.objects]
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
    """Return a page of keys, in the older form of ListObjectsV2. Source: API_ListObjects."""
    page = _find_page(s3, request, request.get("Marker") or "")
    encode = _find_encoder(request)
    answer = _render_common(request, page, encode)
    answer["Marker"] = encode(request.get("Marker") or "")
    answer["Contents"] = [_render_object(stored, encode, owner=True) for stored in page.objects]
    if page.more_after is not None and request.get("Delimiter"):
        answer["NextMarker"] = encode(page.more_after)
    return answer


@operation("ListObjectVersions")
def list_object_versions(
    s3: S3, call: Call, request: ListObjectVersionsInput
) -> ListObjectVersionsOutput:
    """Return a page of versions and delete markers by key, newest first. Source: API_ListObjectVersions."""
    s3.bucket(request["Bucket"])
    key_marker, id_marker = request.get("KeyMarker") or "", request.get("VersionIdMarker")
    if id_marker == "":
        raise invalid_argument("A version-id marker cannot be empty.", "version-id-marker", "")
    if id_marker and not key_marker:
        raise invalid_argument(
            "A version-id marker cannot be specified without a key marker.",
            "version-id-marker",
            id_marker,
        )
    encode = _find_encoder(request)
    prefix = request.get("Prefix") or ""
    scanned = s3.histories.scan(request["Bucket"], prefix, key_marker)
    page = _build_versions_page(scanned, request, key_marker, id_marker)
    common = Page([], page.prefixes, page.next_key)
    answer = cast("ListObjectVersionsOutput", _render_common(request, common, encode))
    answer["KeyMarker"] = encode(key_marker)
    answer["VersionIdMarker"] = id_marker or ""
    versions = [listed for listed in page.listed if isinstance(listed.version, StoredObject)]
    markers = [listed for listed in page.listed if isinstance(listed.version, Marker)]
    if versions:
        answer["Versions"] = [
            cast("ObjectVersion", _render_version(item, encode)) for item in versions
        ]
    if markers:
        answer["DeleteMarkers"] = [
            cast("DeleteMarkerEntry", _render_version(item, encode)) for item in markers
        ]
    if page.next_key is not None:
        answer["NextKeyMarker"] = encode(page.next_key)
        answer["NextVersionIdMarker"] = page.next_id
    return answer


@dataclass(slots=True)
class _VersionsPage:
    """A page of versions. If more pages follow, `next_key` is the key or common prefix that ends this page."""

    listed: list[ListedVersion]
    prefixes: list[str]
    next_key: str | None = None
    next_id: str = ""


def _build_versions_page(
    versions: Iterable[ListedVersion],
    request: ListObjectVersionsInput,
    key_marker: str,
    id_marker: str | None,
) -> _VersionsPage:
    prefix, delimiter = request.get("Prefix") or "", request.get("Delimiter") or ""
    limit = _limit(request)
    page = _VersionsPage([], [])
    last = ("", "")
    is_past_marker = False
    for listed in versions if limit else ():
        key, version_id = listed.version.key, listed.version.version_id
        rolled = find_common_prefix(key, prefix, delimiter)
        if rolled:
            if rolled <= key_marker or (page.prefixes and page.prefixes[-1] == rolled):
                continue
        elif key == key_marker and not is_past_marker:
            is_past_marker = version_id == id_marker
            continue
        if len(page.listed) + len(page.prefixes) >= limit:
            page.next_key, page.next_id = last
            return page
        if rolled:
            page.prefixes.append(rolled)
            last = (rolled, "")
        else:
            page.listed.append(listed)
            last = (key, version_id)
    return page


def _render_version(
    listed: ListedVersion, encode: Callable[[str], str]
) -> ObjectVersion | DeleteMarkerEntry:
    version = listed.version
    if isinstance(version, StoredObject):
        entry = cast("ObjectVersion", _render_object(version, encode, owner=True))
    else:
        entry: ObjectVersion | DeleteMarkerEntry = {
            "Key": encode(version.key),
            "LastModified": moment(version.last_modified_ms),
            "Owner": OWNER,
        }
    entry["VersionId"], entry["IsLatest"] = version.version_id, listed.is_latest
    return entry
