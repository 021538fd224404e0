"""API Gateway's mappings: many small ones of a large body end in an error, not in the cloud's memory or time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.services.apigateway.invocation import mappings
from headrace.services.apigateway.invocation.integrations import Refused, parse_proxy_result
from headrace.services.apigateway.invocation.mappings import (
    Overrides,
    RequestValues,
    read_mock_status,
)
from headrace.services.apigateway.invocation.service_calls import IntegrationAnswer
from headrace.services.apigateway.velocity.velocity import TemplateError

LARGE = json.dumps({"a": "x" * 1_000_000, "items": [{"b": 1}] * 10_000})
SOURCES = ("body.a", "body", "body.items[*].c")


def _seen(body: str = LARGE) -> RequestValues:
    return RequestValues({}, {}, {}, body, {}, caller="api")


def _mapped(prefix: str, source: str) -> dict[str, str]:
    return {f"{prefix}{number}": source for number in range(1000)}


@pytest.mark.parametrize("source", SOURCES)
def test_parameters_of_an_integration(source: str) -> None:
    asked = _mapped("integration.request.header.h", f"method.request.{source}")
    with pytest.raises(TemplateError, match="too much"):
        mappings.request_parameters({"requestParameters": asked}, _seen(), Overrides())


@pytest.mark.parametrize("source", SOURCES)
def test_headers_of_an_answer(source: str) -> None:
    asked = _mapped("method.response.header.h", f"integration.response.{source}")
    chosen: dict[str, Any] = {"statusCode": "200", "responseParameters": asked}
    integration = {"type": "HTTP", "integrationResponses": {"200": chosen}}
    answered = IntegrationAnswer(200, {}, LARGE.encode())
    with pytest.raises(TemplateError, match="too much"):
        mappings.response(integration, answered, "", _seen("{}"), Overrides(), lambda _: False)


@pytest.mark.parametrize("source", SOURCES)
def test_paths_of_a_template(source: str) -> None:
    path = f"$.{source.removeprefix('body').lstrip('.')}".removesuffix(".")
    template = "#foreach($i in [1..1000])$input.json('PATH')#end".replace("PATH", path)
    with pytest.raises(TemplateError):
        mappings.fill_template(template, LARGE, _seen(), Overrides())


def test_a_gateway_response_that_asks_for_too_much_is_the_plain_one() -> None:
    template = {"application/json": "$method.request.body.a" * 1000}
    shapes = {"DEFAULT_4XX": {"responseTemplates": template, "statusCode": "418"}}
    answer = mappings.gateway_response(shapes, Refused(403, "no", "Forbidden"), _seen())
    assert (answer.status, answer.body) == (403, b'{"message":"no"}')


def test_a_body_that_is_read_often_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = mappings.parse_body
    monkeypatch.setattr(mappings, "parse_body", lambda text: parsed.append(text) or parse(text))
    asked = _mapped("integration.request.header.h", "method.request.body.a")
    found = mappings.request_parameters(
        {"requestParameters": asked}, _seen('{"a": "1"}'), Overrides()
    )
    assert (len(parsed), set(found["header"].values())) == (1, {"1"})


def test_json_of_many_levels_is_a_malformed_answer() -> None:
    deep = b"[" * 100_000
    assert read_mock_status(deep.decode()) == ""
    assert parse_proxy_result(deep, needs_status=True) is None
