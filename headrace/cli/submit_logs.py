"""What a submitted job prints, read from S3 where its logs go as they grow."""

from __future__ import annotations

import gzip
import sys
from typing import Any

import click


class JobLogs:
    """A job's logs below `s3://bucket/prefix`: stdout to stdout, stderr to stderr. Without a bucket, nothing."""

    def __init__(self, s3: Any, bucket: str, prefix: str) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._prefix = prefix
        self._etags: dict[str, str] = {}
        self._shown_bytes = {"stdout": 0, "stderr": 0} if bucket else {}

    def show_new(self, *, ended: bool = False) -> None:
        """Print what has come since; at the end, say which logs are not there."""
        for name in self._shown_bytes:
            key = f"{self._prefix}{name}.gz"
            try:
                etag = self._s3.head_object(Bucket=self._bucket, Key=key)["ETag"]
            except self._s3.exceptions.ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                    raise
                if ended:
                    click.echo(f"there is no s3://{self._bucket}/{key}", err=True)
                continue
            if etag != self._etags.get(name):
                self._etags[name] = etag
                self._show(name, key)

    def _show(self, name: str, key: str) -> None:
        stream = sys.stderr.buffer if name == "stderr" else sys.stdout.buffer
        packed = self._s3.get_object(Bucket=self._bucket, Key=key)["Body"]
        with packed, gzip.GzipFile(fileobj=packed) as text:
            text.seek(self._shown_bytes[name])
            while piece := text.read(1 << 20):
                stream.write(piece)
                self._shown_bytes[name] += len(piece)
        stream.flush()
