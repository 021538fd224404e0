"""Tests a method of a REST API (TestInvokeMethod): runs it without a stage, an authorizer or a key, and tells its log.

As recorded from AWS (LocalStack's apigateway/test_apigateway_api.py, September 2025). Documented: what the log tells of
the endpoint's call (apigateway/latest/developerguide, its tutorials); how long that took is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from headrace.aws.calls.http import HttpResponse
from headrace.services.apigateway.invocation.apis import RestApi, best_match
from headrace.services.apigateway.invocation.integrations import (
    INVALID_ADDRESS,
    ApiRequest,
    CallLog,
    query_of,
)
from headrace.services.apigateway.invocation.rest_apis import RestRequest

# The stage of a method that is tested; functions see it in their events.
STAGE = "test-invoke-stage"
_OF_CALLS = ("Endpoint request", "Sending request")


class _Log(CallLog):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def add_request(self, uri: str, headers: Mapping[str, str], body: bytes) -> None:
        self.lines += [
            f"Endpoint request URI: {uri}",
            f"Endpoint request headers: {_java_map(headers)}",
            f"Endpoint request body after transformations: {body.decode(errors='replace')}",
            f"Sending request to {uri}",
        ]

    def add_answer(self, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        self.lines += [
            f"Endpoint response headers: {_java_map(dict(headers))}",
            f"Endpoint response body before transformations: {body.decode(errors='replace')}",
        ]


def _java_map(values: Mapping[str, Any]) -> str:
    """Return a map as Java prints it."""
    return f"{{{', '.join(f'{name}={value}' for name, value in values.items())}}}"


class MethodTest(RestRequest):
    """One test of a method."""

    def __init__(self, api: RestApi, visit: ApiRequest) -> None:
        super().__init__(api, visit)
        self._told: _Log = _Log()  # pyrefly: ignore[bad-override-mutable-attribute]

    def run(self, resource_id: str, method_name: str, asked: Mapping[str, Any]) -> HttpResponse:
        """Answer by the method, which is there."""
        path, methods = next(
            (path, methods)
            for path, (id_, methods) in self.api.resources.items()
            if id_ == resource_id
        )
        # Recorded: a path that is not the method's has no parameters.
        match = best_match(self._path, [path], is_rest_raw=True)
        stage = {
            "variables": dict(asked.get("stageVariables") or {}),
            "deploymentId": "",
            "canary": None,
        }
        open_method = {**methods[method_name], "authorizationType": "NONE", "apiKeyRequired": False}
        parameters = {} if match is None else match[1]
        self._told.lines += self._lines_before(method_name, parameters, asked)
        response = self._answer_by(
            lambda: self._serve(stage, (resource_id, path), parameters, open_method)
        )
        if self._failure:
            # Recorded: of an address that there is not, no call is told; and the answer has no media type.
            if self._failure == INVALID_ADDRESS:
                self._told.lines = [
                    one for one in self._told.lines if not one.startswith(_OF_CALLS)
                ]
            response.headers = [one for one in response.headers if one[0] != "Content-Type"]
        self._told.lines += self._lines_after(response)
        return response

    def log(self) -> str:
        """Return the log of the run."""
        when = f"{datetime.fromtimestamp(self.now_ms / 1000, UTC):%a %b %d %H:%M:%S UTC %Y}"
        lines = (f"{when} : {line}\n" for line in self._told.lines)
        return f"Execution log for request {self._request_id}\n{''.join(lines)}"

    def _lines_before(
        self, method_name: str, parameters: Mapping[str, str], asked: Mapping[str, Any]
    ) -> list[str]:
        query = {name: values[-1] for name, values in query_of(self._request).items()}
        return [
            f"Starting execution for request: {self._request_id}",
            f"HTTP Method: {method_name}, Resource Path: {self._path}",
            f"Method request path: {_java_map(parameters)}",
            f"Method request query string: {_java_map(query)}",
            f"Method request headers: {_java_map(asked.get('headers') or {})}",
            f"Method request body before transformations: {asked.get('body') or ''}",
        ]

    def _lines_after(self, response: HttpResponse) -> list[str]:
        done = f"Method completed with status: {response.status}"
        if self._failure:
            return [f"Execution failed due to configuration error: {self._failure}", done]
        assert isinstance(response.body, bytes)
        return [
            f"Method response body after transformations: {response.body.decode(errors='replace')}",
            f"Method response headers: {_java_map(dict(response.headers))}",
            "Successfully completed execution",
            done,
        ]


def answer_of(test: MethodTest, response: HttpResponse, latency_ms: int) -> dict[str, Any]:
    """Return TestInvokeMethod's answer."""
    assert isinstance(response.body, bytes)
    headers: dict[str, list[str]] = {}
    for name, value in response.headers:
        headers.setdefault(name, []).append(value)
    return {
        "status": response.status,
        "body": response.body.decode(errors="replace"),
        "headers": {name: values[-1] for name, values in headers.items()},
        "multiValueHeaders": headers,
        "log": test.log(),
        "latency": latency_ms,
    }
