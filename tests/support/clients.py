"""boto3 clients that hand their requests to a function instead of a socket.

Making a client takes as long as a dozen requests. So each kind is made once a process; what tests get are copies that
share everything but their events.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse
from botocore.client import ClientMeta
from botocore.config import Config as BotocoreConfig

from headrace.aws.http import HttpRequest, HttpResponse
from headrace.fallback.moto_requests import aws_response, http_request_of

ENDPOINT_URL = "http://127.0.0.1:4566"


def client_of(
    service: str,
    handle: Callable[[HttpRequest], HttpResponse],
    *,
    account: str,
    region: str,
    endpoint_url: str = ENDPOINT_URL,
    addressing: str = "path",
    token: str | None = None,
) -> Any:
    """Return a boto3 client whose requests `handle` answers; it validates nothing itself and never retries.

    `addressing` is S3's: `path` or `virtual`. `account` may be any access key, with a session's `token`.
    """

    def send(request: Any, **_: Any) -> AWSResponse:
        ours = http_request_of(request)
        ours.headers.setdefault("host", request.url.split("://")[1].partition("/")[0])
        return aws_response(request.url, handle(ours))

    client = _with_events_of_its_own(
        _made(service, account, region, endpoint_url, addressing, token)
    )
    client.meta.events.register_first("before-send.*", send)
    return client


@functools.cache
def _made(
    service: str,
    account: str,
    region: str,
    endpoint_url: str,
    addressing: str,
    token: str | None,
) -> Any:
    return boto3.client(
        service,
        region_name=region,
        aws_access_key_id=account,
        aws_secret_access_key="test",
        aws_session_token=token,
        endpoint_url=endpoint_url,
        config=BotocoreConfig(
            retries={"total_max_attempts": 1},
            parameter_validation=False,
            s3={"addressing_style": addressing},
        ),
    )


def _with_events_of_its_own(client: Any) -> Any:
    """Return a copy; what is registered with one is not heard by the other. The endpoint and the signer emit events."""
    events = copy.copy(client.meta.events)
    # Not copy.copy(): a client that has no members yet looks for them in itself without end.
    own = object.__new__(type(client))
    own.__dict__.update(client.__dict__)
    old: Any = client.meta
    own.meta = ClientMeta(
        events,
        old.config,
        old.endpoint_url,
        old.service_model,
        old.method_to_api_mapping,
        old.partition,
    )
    for emitter in ("_endpoint", "_request_signer"):
        part = copy.copy(getattr(client, emitter))
        part._event_emitter = events
        setattr(own, emitter, part)
    signs = f"request-created.{old.service_model.service_id.hyphenize()}"
    events.unregister(signs, client._request_signer.handler)
    events.register(signs, own._request_signer.handler)
    # Waiters and paginators, which it makes once, call the client that made them.
    own._cache = {}
    return own
