"""boto3 clients for simulations: made once for the whole process, and without a network.

A handler sees botocore's behaviour: its parameter checks, its serialization, its retries and its exceptions. The
clients leave out the signature, which a cloud without `--auth` does not check, and the HTTP session; so botocore's
events `request-created`, `before-send`, `response-received` and `before-parse` do not happen. S3 clients are
botocore's, unchanged.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

import boto3
from botocore.awsrequest import AWSResponse
from botocore.config import Config as BotocoreConfig
from botocore.endpoint import Endpoint, convert_to_response_dict
from botocore.exceptions import HTTPClientError

from headrace.aws.calls.http import HttpRequest
from headrace.testing import function_variables, in_process
from headrace.testing.in_process import NO_PORT

# S3's bodies are streams, and its answers with status 200 may be errors.
_USUAL = ("s3", "s3control")


class _Direct(cast("Any", Endpoint)):
    """A client's endpoint that passes requests to the cloud that is entered."""

    authorization: str
    parser: Any

    def begin(self, client: Any, access_key: str) -> None:
        """Learn which client's requests it passes on."""
        model = client.meta.service_model
        scope = f"20231114/{client.meta.region_name}/{model.signing_name}/aws4_request"
        self.authorization = (
            f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders=host, Signature=0"
        )
        self.parser = self._response_parser_factory.create_parser(model.resolved_protocol)

    def _send_request(self, request_dict: dict[str, Any], operation_model: Any) -> Any:
        request_dict["body"] = _body(request_dict)
        attempts = 1
        while True:
            answered, error = self._answer(request_dict, operation_model)
            is_well = answered is not None and answered[0].status_code < 300
            if is_well or not self._needs_retry(
                attempts, operation_model, request_dict, answered, error
            ):
                break
            attempts += 1
        if error is not None:
            raise error
        assert answered is not None
        answered[1].setdefault("ResponseMetadata", {})["RetryAttempts"] = attempts - 1
        return answered

    def _answer(
        self, request_dict: dict[str, Any], operation_model: Any
    ) -> tuple[tuple[AWSResponse, Any] | None, Exception | None]:
        try:
            response = in_process.carry_to_entered(request_dict["url"], self._request(request_dict))
        except HTTPClientError as error:
            return None, error
        response_members = convert_to_response_dict(response, operation_model)
        parsed = self.parser.parse(response_members, operation_model.output_shape)
        if response.status_code >= 300:
            self._add_modeled_error_fields(response_members, parsed, operation_model, self.parser)
        return (response, parsed), None

    def _request(self, request_dict: dict[str, Any]) -> HttpRequest:
        url, body = urlsplit(request_dict["url"]), request_dict["body"]
        headers = {name.lower(): _text(value) for name, value in request_dict["headers"].items()}
        headers["authorization"] = self.authorization
        headers["host"] = url.netloc
        headers["content-length"] = str(len(body))
        return HttpRequest(request_dict["method"], url.path, url.query, headers, body)


def _body(request_dict: dict[str, Any]) -> bytes:
    """Return a request's body as bytes; the query protocol gives a dict, and a file is an object."""
    body = request_dict["body"]
    if isinstance(body, dict):
        body = urlencode(body, doseq=True)
    if isinstance(body, str):
        return body.encode()
    return bytes(body if isinstance(body, bytes | bytearray) else body.read())


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


class _KeptClients(boto3.Session):
    """A session that makes each client once for the whole process: to make one takes longer than a simulated hour."""

    def client(self, service_name: str, *args: Any, **kwargs: Any) -> Any:
        """See boto3."""
        if args or kwargs:
            return cast("Any", super()).client(service_name, *args, **kwargs)
        kept = self.__dict__.setdefault("kept", {})
        if service_name not in kept:
            # To build the User-Agent takes botocore a tenth of each request's time.
            config = BotocoreConfig(user_agent="headrace-simulation")
            client = cast("Any", super()).client(service_name, config=config)
            if service_name not in _USUAL:
                endpoint = client._endpoint  # noqa: SLF001 - botocore has no public way
                endpoint.__class__ = _Direct
                # An endpoint ruleset that resolves every operation to the one address.
                client._ruleset_resolver = None  # noqa: SLF001
                endpoint.begin(client, cast("Any", self).get_credentials().access_key)
            kept[service_name] = client
        return kept[service_name]


@functools.cache
def get_session(account: str, region: str) -> boto3.Session:
    """Return an account's session for all simulations of this process: they share one address."""
    session: Any = function_variables.session(
        f"http://127.0.0.1:{NO_PORT}",
        kind=_KeptClients,
        aws_access_key_id=account,
        aws_secret_access_key=function_variables.SECRET,
        region_name=region,
    )
    return session
