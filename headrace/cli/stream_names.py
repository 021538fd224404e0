"""Names the stream that may be meant when a command's stream is not there."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

import click

from headrace.cli.options import error_text, explain, fail


@contextlib.contextmanager
def explain_stream_errors(kinesis: Any, stream: str) -> Generator[None]:
    """Turn botocore's errors about `stream` (a name or ARN) into one sentence, which names the nearest stream."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise explain_stream(error, kinesis, stream) from error


def explain_stream(error: Exception, kinesis: Any, stream: str) -> click.ClickException:
    """Return `explain(error)`, with the nearest stream when `stream` is not there."""
    hint = suggest_stream(error, kinesis, stream)
    return fail(error_text(error).removesuffix(".") + hint) if hint else explain(error)


def stream_names(kinesis: Any) -> list[str]:
    """Return the names of all streams."""
    pages = kinesis.get_paginator("list_streams").paginate()
    return [name for page in pages for name in page["StreamNames"]]


def suggest_stream(error: BaseException | None, kinesis: Any, stream: str) -> str:
    """Return "; did you mean ..?", or "; there is ..", if `error` says that `stream` is not there; else nothing.

    A region without any stream is named, since it may be the wrong one. Asks ListStreams; who may not list
    streams gets no hint.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    from headrace.sql.types import near

    if (
        not isinstance(error, ClientError)
        or error.response.get("Error", {}).get("Code") != "ResourceNotFoundException"
    ):
        return ""
    try:
        names = stream_names(kinesis)
    except (BotoCoreError, ClientError):
        return ""
    if not names:
        return f"; there is no stream in {kinesis.meta.region_name}"
    name = stream.rpartition("/")[2]
    # The stream is there, and something else is not: a shard.
    return "" if name in names else near(name, names)
