"""Creates Lambda functions from folders of the user's code, and connects them to streams."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from headrace.testing.access import CloudAccess
from headrace.testing.functions import try_import
from headrace.testing.handlers import check_handler

_HANDLER = "handler.handler"
_ROLE = "arn:aws:iam::{account}:role/headrace-test"
_LEFT_OUT = ("__pycache__", ".git", ".venv", "node_modules", ".pytest_cache")


@dataclass(frozen=True, slots=True)
class TestedFunction:
    """A Lambda function that a test has created."""

    __test__ = False

    name: str
    arn: str
    cloud: CloudAccess

    def invoke(self, event: Any) -> Any:
        """Invoke it and return its answer, parsed as JSON. Raises FunctionFailed with the function's error."""
        answer = self.cloud.client("lambda").invoke(
            FunctionName=self.name, Payload=json.dumps(event).encode()
        )
        payload = json.loads(answer["Payload"].read() or b"null")
        if answer.get("FunctionError"):
            raise FunctionFailed(self.name, payload)
        return payload


class StreamMissing(LookupError):
    """The stream that shall trigger a function does not exist; the text is one sentence."""


class FunctionFailed(AssertionError):
    """A function raised, or its process ended. `error` is Lambda's error document."""

    def __init__(self, name: str, error: Any) -> None:
        shown = cast("dict[str, Any]", error if isinstance(error, dict) else {})
        trace = "".join(shown.get("stackTrace") or ())
        super().__init__(
            f"{name} failed: {shown.get('errorType')}: {shown.get('errorMessage')}\n{trace}".rstrip()
        )
        self.error: Any = error


def make_importable_function(cloud: CloudAccess, folder: Path, **settings: Any) -> TestedFunction:
    """Call `make_function`; if the cloud runs in this process, import the handler once before.

    Otherwise a trigger would retry a handler that cannot be imported until its records expire, and `until_drained`
    would count them as handled. A function with layers is not imported: only its file must exist. Raises
    FunctionNotLoadable, StreamMissing.
    """
    folder = folder.resolve()
    handler = settings.get("handler", _HANDLER)
    check_handler(handler, folder)
    if cloud.runs_folders and not settings.get("Layers"):
        try_import(handler, folder, settings.get("environment") or {})
    return make_function(cloud, folder, **settings)


def make_function(
    cloud: CloudAccess,
    folder: Path,
    *,
    handler: str = _HANDLER,
    name: str | None = None,
    environment: Mapping[str, str] | None = None,
    source: str | None = None,
    mapping: Mapping[str, Any] | None = None,
    **configuration: Any,
) -> TestedFunction:
    """Create a function from a folder.

    Args:
        cloud: a cloud in this process runs the folder's files in place; any other gets them as a zip.
        folder: holds the handler's module and every import that the runtime does not have.
        handler: `module.function`.
        name: the function's name; the default is the folder's name.
        environment: the function's environment variables.
        source: the ARN or the name of a Kinesis stream that triggers the function, from TRIM_HORIZON.
        mapping: more members of CreateEventSourceMapping.
        configuration: more members of CreateFunction, such as Timeout.

    Raises FunctionNotLoadable, and StreamMissing before anything is created.
    """
    if mapping is not None and source is None:
        raise StreamMissing("mapping= is about the mapping of a stream: name the stream by source=")
    folder = Path(folder).resolve()
    check_handler(handler, folder)
    stream = None if source is None else _stream_arn(cloud, source)
    name = name or folder.name
    in_place = {"S3Bucket": "headrace-local", "S3Key": str(folder)}
    code = in_place if cloud.runs_folders else {"ZipFile": zip_folder(folder)}
    functions = cloud.client("lambda")
    function = functions.create_function(
        **{
            "FunctionName": name,
            "Runtime": "python3.13",
            "Role": _ROLE.format(account=cloud.account),
            "Handler": handler,
            "Code": code,
            "Timeout": 60,
            "Environment": {"Variables": dict(environment or {})},
            **configuration,
        }
    )
    functions.get_waiter("function_active_v2").wait(
        FunctionName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    if stream is not None:
        functions.create_event_source_mapping(
            **{
                "EventSourceArn": stream,
                "FunctionName": name,
                "StartingPosition": "TRIM_HORIZON",
                **(mapping or {}),
            }
        )
    return TestedFunction(name, function["FunctionArn"], cloud)


def _stream_arn(cloud: CloudAccess, source: str) -> str:
    if source.startswith("arn:"):
        return source
    kinesis = cloud.client("kinesis")
    try:
        summary = kinesis.describe_stream_summary(StreamName=source)
    except kinesis.exceptions.ResourceNotFoundException:
        raise StreamMissing(
            f"There is no stream {source} in account {cloud.account} to trigger a function: create it first."
        ) from None
    return str(summary["StreamDescriptionSummary"]["StreamARN"])


def zip_folder(folder: Path) -> bytes:
    """Return a zip archive of a folder; the same files give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for where, folders, files in os.walk(folder):
            folders[:] = sorted(set(folders).difference(_LEFT_OUT))
            for name in sorted(files):
                path = Path(where) / name
                info = zipfile.ZipInfo(path.relative_to(folder).as_posix(), (2026, 1, 1, 0, 0, 0))
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = (path.stat().st_mode & 0o777) << 16
                archive.writestr(info, path.read_bytes())
    return buffer.getvalue()
