"""The gateway finds a service by what the service declares, and by nothing else."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway import dispatch as gateway_module
from headrace.aws.gateway.dispatch import Gateway
from headrace.aws.protocols.service import Profile, ServiceApi
from headrace.core.ids import Ids
from tests.support.clock import FakeClock
from tests.support.owned import OWNED

FORM = {"content-type": "application/x-www-form-urlencoded"}
SCOPE = "AWS4-HMAC-SHA256 Credential=1/20260101/us-east-1/{}/aws4_request, SignedHeaders=host"


class Elsewhere:
    """One service that headrace does not own."""

    profiles: Mapping[str, Profile] = {
        "bells": Profile(signing_scopes=("carillon",), query_version="1999-01-01")
    }

    def handle(self, request: HttpRequest, service: str) -> HttpResponse:
        return HttpResponse(200, [], f"elsewhere {service}".encode())

    def call(
        self,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        *,
        account: str,
        region: str,
        is_for_client: bool,
    ) -> dict[str, Any]:
        raise LookupError(service)

    def may_be_quick(self, request: HttpRequest) -> bool:
        return False

    def account_of(self, access_key: str) -> str | None:
        return None


def translate(error: Exception) -> AwsError | None:
    return None


@pytest.fixture
def gateway() -> Gateway:
    gateway = Gateway(
        clock=FakeClock(),
        ids=Ids(1),
        account="000000000000",
        region="us-east-1",
        moto=Elsewhere(),
    )
    for name, profile in {
        "mills": Profile(target_prefix="Mills_2026", paths=("/2026-01-01/",)),
        "ponds": Profile(signing_scopes=("lakes",), takes_the_rest=True),
    }.items():
        gateway.register(
            ServiceApi(
                name=name,
                backend=None,
                actions=[],
                translate=translate,
                profile=profile,
                raw=lambda _, name=name: HttpResponse(200, [], name.encode()),
            )
        )
    return gateway


@pytest.mark.parametrize(
    ("path", "headers", "body", "answered"),
    [
        ("/", {"x-amz-target": "Mills_2026.Grind"}, b"", "mills"),
        ("/2026-01-01/wheels", {}, b"", "mills"),
        ("/", {"authorization": SCOPE.format("mills")}, b"", "mills"),
        ("/", {"authorization": SCOPE.format("lakes")}, b"", "ponds"),
        ("/anything", {}, b"", "ponds"),
        ("/", FORM, b"Action=Swim&Version=2026", "ponds"),
        ("/", FORM, b"Action=Ring&Version=1999-01-01", "elsewhere bells"),
        ("/", {"authorization": SCOPE.format("carillon")}, b"", "elsewhere bells"),
        ("/", {"authorization": SCOPE.format("kinesis")}, b"", "elsewhere kinesis"),
        ("/", {"x-amz-target": "Gates_20260101.Open"}, b"", "elsewhere gates"),
    ],
)
def test_a_service_is_found_by_what_it_declares(
    gateway: Gateway, path: str, headers: dict[str, str], body: bytes, answered: str
) -> None:
    answer = gateway.handle(HttpRequest("POST", path, "", headers, body))
    assert isinstance(answer, HttpResponse)
    assert answer.body == answered.encode()


AWS = Path(gateway_module.__file__).parent


def test_the_gateway_has_no_services_name_in_it() -> None:
    tree = ast.parse((AWS / "dispatch.py").read_text())
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert texts & set(OWNED) == set()


def test_the_protocol_layer_has_no_table_of_services() -> None:
    tables = [
        f"{file.name}:{node.lineno}"
        for file in AWS.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Dict)
        and any(isinstance(key, ast.Constant) and key.value in OWNED for key in node.keys)
    ]
    assert tables == []
