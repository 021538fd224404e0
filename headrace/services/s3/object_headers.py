"""Reads the parameters of PutObject and UploadPart from the headers."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, cast

from headrace.aws.calls.model import operation_model
from headrace.services.s3 import checksums
from headrace.services.s3.errors import invalid_request

_METADATA_PREFIX = "x-amz-meta-"


def read_params(headers: Mapping[str, str]) -> dict[str, Any]:
    """Return PutObject's parameters from headers, whose names are in lower case. Raises AwsError."""
    names = _list_params_by_header()
    params: dict[str, Any] = {
        names[header]: value for header, value in headers.items() if value and header in names
    }
    params["Metadata"] = {
        name.removeprefix(_METADATA_PREFIX): value
        for name, value in headers.items()
        if name.startswith(_METADATA_PREFIX)
    }
    if headers.get("x-amz-sdk-checksum-algorithm") and not any(
        name in params for name in checksums.CHECKSUMS
    ):
        raise invalid_request(
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers"
            " were found."
        )
    return params


def read_customer_key_params(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of the customer-provided key in the headers."""
    params_by_header = _list_params_by_header()
    return {
        params_by_header[header]: value
        for header, value in headers.items()
        if params_by_header.get(header, "").startswith("SSECustomer")
    }


@functools.cache
def _list_params_by_header() -> dict[str, str]:
    """Return a dictionary from header names to PutObject's parameters, which include all of UploadPart's."""
    # botocore has no types: its shapes are Any here.
    shape: Any = cast("Any", operation_model("s3", "PutObject")).input_shape
    return {
        member.serialization["name"].lower(): name
        for name, member in shape.members.items()
        if member.serialization.get("location") == "header" and name != "ContentLength"
    }
