"""Large values of rows to S3, by reference: objects are named by their content, so that a repeat makes no second."""

from __future__ import annotations

import hashlib
from typing import Any, cast

from headrace.cdc.envelopes import Document, encode


class LargeValues:
    """Puts values into a bucket. Thread-safe as its client is."""

    def __init__(self, s3: Any, bucket: str, prefix: str) -> None:
        """Take boto3's client of S3, and where objects go."""
        self._s3, self._bucket, self._prefix = s3, bucket, prefix

    def shrink(self, document: Document, room: int) -> Document:
        """Replace the largest values of a change's rows until it fits `room` bytes, or none is left.

        In a value's place comes {"$s3": its URL, "bytes": .., "sha256": ..}; the object is the value's text, or its
        JSON when it is no text. The object is stored when this returns. Raises botocore's errors.
        """
        smaller = dict(document)
        places: list[tuple[int, Document, str]] = []
        for name in ("before", "after", "data"):
            row = smaller.get(name)
            if isinstance(row, dict):
                copy = dict(cast("Document", row))
                smaller[name] = copy
                places += [(len(_bytes_of(value)), copy, column) for column, value in copy.items()]
        for size, row, column in sorted(places, key=lambda place: -place[0]):
            if len(encode(smaller)) <= room or size < 256:
                break
            row[column] = self._store(row[column])
        return smaller

    def _store(self, value: Any) -> Document:
        content = _bytes_of(value)
        digest = hashlib.sha256(content).hexdigest()
        key = f"{self._prefix}{digest}"
        self._s3.put_object(Bucket=self._bucket, Key=key, Body=content)
        return {"$s3": f"s3://{self._bucket}/{key}", "bytes": len(content), "sha256": digest}


def _bytes_of(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else encode(value)
