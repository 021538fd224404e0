"""boto3 clients that hand their requests to a function instead of a socket.

Making a client takes as long as a dozen requests. So each kind is made once a process; what tests get are copies that
share everything but their HTTP session, and their events once a test registers a handler.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import boto3
import botocore.session
from botocore.awsrequest import AWSResponse
from botocore.client import ClientMeta
from botocore.config import Config as BotocoreConfig
from moto.core.loaders import create_loader

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.testing.in_process import aws_response, http_request_of

ENDPOINT_URL = "http://127.0.0.1:4566"
SQS_BY_QUERY = "sqs by query"
_NAME_IN_FORMS = "locationNameForQueryCompatibility"


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

    `addressing` is S3's: `path` or `virtual`. `account` may be any access key, with a session's `token`. The service
    `SQS_BY_QUERY` is SQS as SDKs of before November 2023 speak it.
    """

    return _with_session_of_its_own(
        _made(service, account, region, endpoint_url, addressing, token), _Session(handle)
    )


class _Session:
    """Stands in for botocore's HTTP session: a function answers the requests."""

    def __init__(self, handle: Callable[[HttpRequest], HttpResponse]) -> None:
        self._handle = handle

    def send(self, request: Any) -> AWSResponse:
        ours = http_request_of(request)
        ours.headers.setdefault("host", request.url.split("://")[1].partition("/")[0])
        return aws_response(request.url, self._handle(ours))

    def close(self) -> None:
        """See botocore.httpsession.URLLib3Session."""


@functools.cache
def _made(
    service: str,
    account: str,
    region: str,
    endpoint_url: str,
    addressing: str,
    token: str | None,
) -> Any:
    return _session(service).client(
        "sqs" if service == SQS_BY_QUERY else service,
        region_name=region,
        aws_access_key_id=account,
        aws_secret_access_key="test",
        aws_session_token=token,
        endpoint_url=endpoint_url,
        config=BotocoreConfig(
            retries={"total_max_attempts": 1},
            parameter_validation=False,
            # Step Functions' `sync-` before this host's name would be another host.
            inject_host_prefix=service != "stepfunctions",
            s3={"addressing_style": addressing},
        ),
    )


def _session(service: str) -> Any:
    """Return boto3, or a session of its own with the older model of SQS."""
    if service != SQS_BY_QUERY:
        return boto3
    session = botocore.session.Session()
    session.register_component("data_loader", _OldModels(session.get_component("data_loader")))
    return boto3.Session(botocore_session=session)


class _OldModels:
    """botocore's models, but SQS with the protocol and the names of forms that it had before November 2023."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def load_service_model(self, service: str, kind: str, api_version: str | None = None) -> Any:
        if (service, kind) != ("sqs", "service-2"):
            return self._loader.load_service_model(service, kind, api_version)
        model = _with_names_of_forms(create_loader().load_service_model(service, kind, api_version))
        model["metadata"] |= {"protocol": "query", "protocols": ["query"]}
        del model["metadata"]["awsQueryCompatible"]
        return model


def _with_names_of_forms(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_names_of_forms(one) for one in value]
    if not isinstance(value, dict):
        return value
    members = {name: _with_names_of_forms(one) for name, one in value.items()}
    if _NAME_IN_FORMS in members:
        members["locationName"] = members.pop(_NAME_IN_FORMS)
    return members


def _with_session_of_its_own(client: Any, session: _Session) -> Any:
    """Return a copy with another session; what is registered with one is not heard by the other."""
    # Not copy.copy(): a client that has no members yet looks for them in itself without end.
    own = object.__new__(type(client))
    own.__dict__.update(client.__dict__)
    old: Any = client.meta
    events = _Events(own, old.events)
    own.meta = ClientMeta(
        events,
        old.config,
        old.endpoint_url,
        old.service_model,
        old.method_to_api_mapping,
        old.partition,
    )
    own._endpoint = copy.copy(client._endpoint)
    own._endpoint.http_session = session
    own._endpoint._event_emitter = events
    # Waiters and paginators, which it makes once, call the client that made them.
    own._cache = {}
    return own


class _Events:
    """The events of a client: those of the client that it is a copy of, until a test registers a handler.

    To copy them takes a quarter as long as a cloud's start, and few tests register any.
    """

    def __init__(self, client: Any, shared: Any) -> None:
        self._client = client
        self._emitter = shared
        self._is_own = False

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("emit") and not self._is_own:
            self._copy()
        return getattr(self._emitter, name)

    def _copy(self) -> None:
        """Give the client events of its own, and a signer that emits them."""
        self._is_own = True
        self._emitter = copy.copy(self._emitter)
        shared = self._client._request_signer
        signer = self._client._request_signer = copy.copy(shared)
        signer._event_emitter = self._emitter
        signs = f"request-created.{self._client.meta.service_model.service_id.hyphenize()}"
        self._emitter.unregister(signs, shared.handler)
        self._emitter.register(signs, signer.handler)
