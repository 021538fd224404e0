"""Calls Kinesis: through boto3 for rare requests, and directly to Arrow for GetRecords.

boto3 creates a dict with a parsed datetime for every record, which takes several times as long as everything else. So
botocore signs and sends GetRecords, and this package parses the answer.
"""

# botocore has no types.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

from __future__ import annotations

import json
import logging
import random
import re
import socket
import threading
import time
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, cast

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    DeferredRefreshableCredentials,
)
from botocore.exceptions import (
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    PartialCredentialsError,
)
from botocore.exceptions import ConnectionError as BotocoreConnectionError
from botocore.httpsession import URLLib3Session
from botocore.utils import get_environ_proxies
from urllib3.exceptions import HTTPError

from headrace.spark.get_records import ExpiredIterator, Page, parse_page
from headrace.spark.offsets import (
    AtSequenceNumber,
    AtTimestamp,
    Init,
    Position,
    TrimHorizon,
    position_of,
)
from headrace.spark.options import Options, SinkOptions
from headrace.spark.spans import DataLoss, Shard
from headrace.spark.untyped import untyped

log = logging.getLogger(__name__)

_MOST_CONNECTIONS = 32
_UNREACHABLE = (HTTPClientError, BotocoreConnectionError, HTTPError)
_FOREIGN_NUMBER = re.compile(r"InvalidArgumentException: StartingSequenceNumber\b")
# Quotes inside a JSON string are escaped, so this is the member, not part of a string.
_NONE_FAILED = re.compile(rb'"FailedRecordCount":\s*0\s*[,}]')
_NO_CREDENTIALS = (CredentialRetrievalError, PartialCredentialsError)
_THROTTLES = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "ThrottlingException",
        "KMSThrottlingException",
        "RequestLimitExceeded",
        # SubscribeToShard's, within five seconds after the last one of the shard.
        "ResourceInUseException",
    }
)
# These codes mean that the credentials have expired; boto3 may find new ones.
_OUTDATED = frozenset({"ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException"})


class KinesisError(Exception):
    """Kinesis refuses a call permanently, or cannot be reached."""


class KinesisClient:
    """Reads or writes one stream. Thread-safe."""

    def __init__(self, options: Options | SinkOptions) -> None:
        self._options = options
        self._renewal = threading.Lock()
        self._credentials, self._client = _connect(options)
        self._url: str = self._client.meta.endpoint_url
        self._region: str = self._client.meta.region_name
        self._http = untyped(URLLib3Session)(
            proxies=get_environ_proxies(self._url),
            max_pool_connections=_MOST_CONNECTIONS,
            # Head and body are sent separately: without this the second waits for the first one's delayed
            # acknowledgement, 40 ms per call.
            socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
        self._client.close()

    def _renew(self, outdated: Any) -> None:
        """Search for credentials again, unless another thread has already replaced the `outdated` ones."""
        with self._renewal:
            if self._credentials is outdated:
                log.info("Kinesis refuses the credentials as outdated; looking for others.")
                # Running calls keep the old client.
                self._credentials, self._client = _connect(self._options)

    # --- the rare calls -----------------------------------------------------------------------

    def shards(self) -> list[Shard]:
        """Return every listed shard, open and closed."""
        listed: list[Shard] = []
        request: dict[str, Any] = {"StreamName": self._options.stream}
        while True:
            answer = self._call("list_shards", request)
            listed += [
                Shard(
                    shard["ShardId"],
                    tuple(
                        shard[name]
                        for name in ("ParentShardId", "AdjacentParentShardId")
                        if shard.get(name)
                    ),
                )
                for shard in answer["Shards"]
            ]
            if not answer.get("NextToken"):
                return listed
            request = {"NextToken": answer["NextToken"]}

    def now_ms(self) -> tuple[int, int]:
        """Return a lower and an upper bound of the stream's time, in epoch milliseconds.

        The bounds differ only if this machine's clock and the service's differ: the service gives its own in seconds.
        """
        answer = self._call("describe_stream_summary", {"StreamName": self._options.stream})
        here_ms = time.time_ns() // 1_000_000
        text = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        if not text:
            return here_ms, here_ms
        there_ms = round(parsedate_to_datetime(text).timestamp() * 1000)
        return (here_ms, here_ms) if 0 <= here_ms - there_ms < 1000 else (there_ms, there_ms + 999)

    def retention_ms(self) -> int:
        """Return how long the stream keeps a record, in milliseconds."""
        answer = self._call("describe_stream_summary", {"StreamName": self._options.stream})
        return int(answer["StreamDescriptionSummary"]["RetentionPeriodHours"]) * 3_600_000

    def consumer_arn(self, name: str) -> str:
        """Return the ARN of a registered consumer, which is made if it is missing. Raises KinesisError."""
        answer = self._call("describe_stream_summary", {"StreamName": self._options.stream})
        named = {
            "StreamARN": answer["StreamDescriptionSummary"]["StreamARN"],
            "ConsumerName": name,
        }
        try:
            self._call("register_stream_consumer", named)
        except KinesisError as error:
            # It may be there already, or another query makes it now.
            if not str(error).startswith("ResourceInUseException"):
                raise
        while True:
            consumer = self._call("describe_stream_consumer", named)["ConsumerDescription"]
            if consumer["ConsumerStatus"] == "ACTIVE":
                return str(consumer["ConsumerARN"])
            time.sleep(0.5)

    def iterator(self, shard_id: str, after: str | None, init: Init) -> str:
        """Return an iterator after a sequence number, or at the starting position without one.

        Raises DataLoss when the sequence number does not belong to the stream.
        """
        request: dict[str, Any] = {"StreamName": self._options.stream, "ShardId": shard_id}
        if after is not None:
            request |= {
                "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
                "StartingSequenceNumber": after,
            }
        else:
            request |= _starting_at(position_of(init, shard_id))
        # Not with boto3, which up to 1.42 truncates a time to the second.
        answer = self._get_iterator_answer(shard_id, after, "GetShardIterator", request)
        return str(json.loads(answer.content)["ShardIterator"])

    def subscribe(self, consumer_arn: str, shard_id: str, after: str | None, init: Init) -> Any:
        """Return the raw event stream of a shard, after a sequence number, or at the starting position without one.

        It lasts five minutes, and the caller closes it. A shard can be subscribed to every five seconds (documented:
        API_SubscribeToShard), which this waits for. Raises DataLoss as `iterator`, KinesisError.
        """
        if after is not None:
            position: dict[str, Any] = {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": after}
        else:
            begin = _starting_at(position_of(init, shard_id))
            names = {"ShardIteratorType": "Type", "StartingSequenceNumber": "SequenceNumber"}
            position = {names.get(name, name): value for name, value in begin.items()}
        request = {"ConsumerARN": consumer_arn, "ShardId": shard_id, "StartingPosition": position}
        return self._get_iterator_answer(shard_id, after, "SubscribeToShard", request).raw

    def _get_iterator_answer(
        self, shard_id: str, after: str | None, operation: str, request: dict[str, Any]
    ) -> Any:
        try:
            return self._answer(operation, json.dumps(request).encode())
        except KinesisError as error:
            if after is None or _FOREIGN_NUMBER.match(str(error)) is None:
                raise
            raise DataLoss(
                f"Stream {self._options.stream} is not the stream that the checkpoint is of: it has been deleted and "
                f"made anew since. Use another checkpoint. Kinesis says of shard {shard_id}: {error}"
            ) from error

    def _call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        credentials = self._credentials
        try:
            return self._call_boto(operation, request)
        except ClientError as error:
            if _code(error) not in _OUTDATED:
                raise self._kinesis_error(error) from error
        self._renew(credentials)
        try:
            return self._call_boto(operation, request)
        except ClientError as error:
            raise self._kinesis_error(error) from error

    def _kinesis_error(self, error: ClientError) -> KinesisError:
        details = cast("dict[str, Any]", error.response).get("Error", {})
        return KinesisError(
            f"{details.get('Code')}: {details.get('Message')} (stream {self._options.stream}, {self._url})"
        )

    def _call_boto(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return cast("dict[str, Any]", getattr(self._client, operation)(**request))
        except _UNREACHABLE as error:
            raise KinesisError(f"Kinesis cannot be reached: {error}") from error
        except _NO_CREDENTIALS as error:
            raise KinesisError(f"There are no AWS credentials: {error}") from error

    # --- records ------------------------------------------------------------------------------

    def records(self, iterator: str, limit: int) -> Page:
        """Return the next records. Wait and retry when throttled or when the service fails.

        Raises ExpiredIterator, KinesisError.
        """
        return parse_page(
            self.send(
                "GetRecords", json.dumps({"ShardIterator": iterator, "Limit": limit}).encode()
            )
        )

    def put_records(self, body: bytes) -> list[dict[str, Any]] | None:
        """Send a PutRecords request; return None if all records are stored, else the answer's entries.

        If the service fails without an answer, the request is sent again, and records may be stored twice.
        Raises KinesisError.
        """
        answer = self.send("PutRecords", body)
        if _NONE_FAILED.search(answer):
            return None
        return cast("list[dict[str, Any]]", json.loads(answer)["Records"])

    def send(self, operation: str, body: bytes) -> bytes:
        """Send a JSON request and return the JSON answer. Wait and retry as in `records`."""
        return cast("bytes", self._answer(operation, body).content)

    def _answer(self, operation: str, body: bytes) -> Any:
        backoff_s = self._options.retry_interval_ms / 1000
        longest_s = self._options.longest_retry_interval_ms / 1000
        retries, renewed = 0, False
        while True:
            credentials = self._credentials
            try:
                answer = self._http.send(self._sign(operation, body, credentials))
                if answer.status_code == 200:
                    if operation != "SubscribeToShard":
                        _ = answer.content  # is read here, where a broken connection is tried again
                    return answer
                code, message = _error(answer.content)
                if code == "ExpiredIteratorException":
                    raise ExpiredIterator(message)
                problem = f"{code}: {message} (stream {self._options.stream}, {self._url})"
                if code in _OUTDATED and not renewed:
                    renewed = True
                    self._renew(credentials)
                    continue
                if code not in _THROTTLES and answer.status_code < 500:
                    raise KinesisError(problem)
            except _UNREACHABLE as error:
                problem = f"Kinesis cannot be reached: {error} (stream {self._options.stream})"
            if retries == self._options.most_retries:
                raise KinesisError(problem)
            retries += 1
            # At random times: beside a reader of the same rhythm, equal waits would meet a used-up second every time.
            wait_s = backoff_s * random.uniform(0.5, 1)
            log.info("%s will be tried again in %.1f s: %s", operation, wait_s, problem)
            time.sleep(wait_s)
            backoff_s = min(backoff_s * 2, longest_s)

    def _sign(self, operation: str, body: bytes, credentials: Any) -> Any:
        request = untyped(AWSRequest)(
            "POST",
            self._url,
            data=body,
            headers={
                "Content-Type": "application/x-amz-json-1.1",
                "X-Amz-Target": f"Kinesis_20131202.{operation}",
            },
            stream_output=True,
        )
        try:
            frozen = credentials.get_frozen_credentials()
        except (ClientError, *_NO_CREDENTIALS) as error:
            raise KinesisError(f"There are no AWS credentials: {error}") from error
        untyped(SigV4Auth)(frozen, "kinesis", self._region).add_auth(request)
        return request.prepare()


def _starting_at(position: Position) -> dict[str, Any]:
    if isinstance(position, AtTimestamp):
        return {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": position.timestamp_ms / 1000}
    if isinstance(position, AtSequenceNumber):
        kind = "AFTER_SEQUENCE_NUMBER" if position.after else "AT_SEQUENCE_NUMBER"
        return {"ShardIteratorType": kind, "StartingSequenceNumber": position.sequence_number}
    if isinstance(position, TrimHorizon):
        return {"ShardIteratorType": "TRIM_HORIZON"}
    return {"ShardIteratorType": "LATEST"}


def _error(body: bytes) -> tuple[str, str]:
    try:
        answer = cast("dict[str, Any]", json.loads(body))
        return (
            str(answer.get("__type", "")).rpartition("#")[2],
            str(answer.get("message") or answer.get("Message") or ""),
        )
    except (ValueError, AttributeError):
        return "InternalFailure", body[:200].decode(errors="replace")


def _code(error: ClientError) -> str:
    return str(cast("dict[str, Any]", error.response).get("Error", {}).get("Code"))


def _connect(options: Options | SinkOptions) -> tuple[Any, Any]:
    """Search for credentials; return them and a boto3 client that uses them."""
    session = untyped(
        boto3.Session(
            region_name=options.region,
            aws_access_key_id=options.access_key_id,
            aws_secret_access_key=options.secret_key,
            aws_session_token=options.session_token,
        )
    )
    client = session.client(
        "kinesis",
        endpoint_url=options.endpoint_url,
        config=Config(
            retries={"mode": "standard", "max_attempts": options.most_retries + 1},
            max_pool_connections=_MOST_CONNECTIONS,
        ),
    )
    credentials = _credentials(session, options)
    if options.role_arn is not None:
        client._request_signer._credentials = credentials  # noqa: SLF001
    return credentials, client


def _credentials(session: Any, options: Options | SinkOptions) -> Any:
    credentials = session.get_credentials()
    if credentials is None:
        raise KinesisError(
            "There are no AWS credentials: none in the environment, the profile, or of the machine."
        )
    if options.role_arn is None:
        return credentials
    core = session._session  # noqa: SLF001
    fetcher = untyped(AssumeRoleCredentialFetcher)(
        partial(core.create_client, endpoint_url=options.sts_endpoint_url),
        credentials,
        options.role_arn,
        extra_args={"RoleSessionName": options.role_session_name},
    )
    return untyped(DeferredRefreshableCredentials)(fetcher.fetch_credentials, "assume-role")
