"""What a stream is: its name, its shards, how it places records. Calls through botocore, which retries them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from headrace.client.hash_keys import ShardRange

if TYPE_CHECKING:
    from headrace.client.access import AwsAccess

_LOG = logging.getLogger("headrace.client")


def name_member(stream: str) -> dict[str, str]:
    """Return the member of a request that names a stream, for its name or ARN."""
    return {"StreamARN": stream} if stream.startswith("arn:") else {"StreamName": stream}


def list_all_shards(client: Any, **request: Any) -> list[dict[str, Any]]:
    """Return the shards of all pages of ListShards, by a client of boto3. Raises botocore's errors."""
    answer: dict[str, Any] = client.list_shards(**request)
    shards: list[dict[str, Any]] = list(answer["Shards"])
    while answer.get("NextToken"):
        answer = client.list_shards(NextToken=answer["NextToken"])
        shards += answer["Shards"]
    return shards


class Streams:
    """One stream. Thread-safe."""

    def __init__(self, access: AwsAccess, stream: str) -> None:
        """Take a stream's name or ARN. This sends nothing."""
        self._access = access
        self.name_member = name_member(stream)

    def shards(self, shard_filter: dict[str, Any] | None = None) -> list[ShardRange]:
        """Return the shards that ListShards names, by id. Raises botocore's errors."""
        client = self._access.client("kinesis")
        request: dict[str, Any] = dict(self.name_member)
        if shard_filter is not None:
            request["ShardFilter"] = shard_filter
        shards = map(ShardRange.of, list_all_shards(client, **request))
        return sorted(shards, key=lambda shard: shard.shard_id)

    def open_shards(self) -> list[ShardRange]:
        """Return the shards that take records. Raises botocore's errors."""
        return self.shards({"Type": "AT_LATEST"})

    def summary(self) -> dict[str, Any]:
        """Return the description of DescribeStreamSummary. Raises botocore's errors."""
        answer = self._access.client("kinesis").describe_stream_summary(**self.name_member)
        return answer["StreamDescriptionSummary"]

    def places_records_itself(self) -> bool:
        """Whether records need no key: the stream's strategy is AUTO. A caller who may not ask gets False."""
        try:
            return self.summary().get("RecordDistributionStrategy") == "AUTO"
        except Exception as error:  # noqa: BLE001 - botocore's errors have no common base; keys are right in any case
            _LOG.info("Records get random keys, because the stream cannot be described: %s", error)
            return False
