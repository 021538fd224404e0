"""What scripts for LocalStack, and for moto's server, ask of a cloud."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import is_admin
from headrace.pages.localstack import IN_MOTO, localstack_routes
from headrace.pages.routes import Routes
from tests.security.conftest import Door, body_of, text
from tests.support.cloud import InProcessCloud


def ask(path: str, method: str = "GET", *, is_ready: bool = True) -> HttpResponse:
    assert is_admin(path)
    routes = localstack_routes(
        services=lambda: ("s3", "kinesis", "lambda"),
        is_started=lambda: is_ready,
        is_moto_ready=lambda: is_ready,
    )
    return Routes(routes).answer(HttpRequest(method, path, "", {}))


@pytest.mark.parametrize("service", ["s3", "lambda", "sqs", "sns", "dynamodb", "events", "logs"])
def test_a_script_that_waits_for_a_service_finds_it(service: str):
    assert f'"{service}": "running"'.encode() in ask("/_localstack/health").body
    assert ask("/_localstack/health", "HEAD").status == 200


def test_a_service_of_moto_is_available_before_it_is_loaded():
    states = json.loads(ask("/_localstack/health", is_ready=False).body)["services"]
    assert (states["kinesis"], states["sqs"]) == ("running", "available")
    assert list(states) == sorted({*IN_MOTO, "s3", "kinesis", "lambda"})


@pytest.mark.parametrize("is_ready", [True, False])
def test_start_up_scripts_are_done_once_the_cloud_is(is_ready: bool):
    every = json.loads(ask("/_localstack/init", is_ready=is_ready).body)
    assert (every["completed"]["READY"], every["scripts"]) == (is_ready, [])
    one = json.loads(ask("/_localstack/init/ready", is_ready=is_ready).body)
    assert one == {"completed": is_ready, "scripts": []}
    assert ask("/_localstack/init/other").status == 404


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with InProcessCloud(tmp_path_factory.mktemp("reset") / "data") as cloud:
        yield Door(cloud)


PROGRAM, BROWSER = {"user-agent": "curl"}, {"user-agent": "Mozilla/5.0"}


@pytest.mark.parametrize("headers", [PROGRAM, BROWSER])
@pytest.mark.parametrize("path", ["/_localstack/state/reset", "/moto-api/reset"])
def test_a_reset_is_refused_with_what_to_do_instead(door: Door, path: str, headers: dict[str, str]):
    answer = door.ask("POST", path, headers)
    assert answer.status == 501
    assert "headrace reset" in body_of(answer)["message"]


@pytest.mark.parametrize("headers", [PROGRAM, BROWSER])
def test_an_object_may_have_the_path_of_moto_s_reset(door: Door, headers: dict[str, str]):
    assert door.status("GET", "/moto-api/reset", headers) == 404
    assert door.status("PUT", "/moto-api", headers) == 200
    assert door.status("PUT", "/moto-api/reset", headers) == 200
    assert door.status("GET", "/moto-api/reset", headers) == 200
    assert "UploadId" in text(door.ask("POST", "/moto-api/reset?uploads", headers))
    assert door.status("DELETE", "/moto-api/reset", headers) == 204
