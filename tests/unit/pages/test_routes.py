"""Which page a path leads to."""

from __future__ import annotations

import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import json_response
from headrace.pages.routes import Route, Routes, for_people


def shown(name: str):
    def answer(_: HttpRequest, rest: list[str]) -> HttpResponse:
        return json_response([name, *rest])

    return answer


ROUTES = Routes(
    [
        *for_people("/_headrace/a/b", shown("b"), below=True),
        *for_people("/_headrace/a", shown("a"), below=True),
        *for_people("/_headrace/c", shown("c")),
        Route("/_headrace/d", shown("get d"), ("GET",)),
        Route("/_headrace/d", shown("put d"), ("PUT",)),
    ]
)


@pytest.mark.parametrize(
    ("method", "path", "answered"),
    [
        ("GET", "/_headrace/a", b'["a"]'),
        ("GET", "/_headrace/a//", b'["a"]'),
        ("GET", "/_headrace/a/x%2Fy/z", b'["a","x/y","z"]'),
        ("GET", "/_headrace/a/b/", b'["b"]'),
        ("HEAD", "/_headrace/a/b/x", b'["b","x"]'),
        ("GET", "/_headrace/c/", b'["c"]'),
        ("GET", "/_headrace/d", b'["get d"]'),
        ("PUT", "/_headrace/d", b'["put d"]'),
    ],
)
def test_the_first_route_that_fits_answers(method: str, path: str, answered: bytes) -> None:
    answer = ROUTES.answer(HttpRequest(method, path))
    assert (answer.status, answer.body) == (200, answered)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/_headrace/ab", 404),
        ("GET", "/_headrace/c/x", 404),
        ("POST", "/_headrace/d", 404),
        ("GET", "/_headrace/d/", 404),
        ("POST", "/_headrace/a", 405),
        ("DELETE", "/_headrace/c", 405),
    ],
)
def test_what_fits_no_route_is_refused_and_tied_down(method: str, path: str, status: int) -> None:
    answer = ROUTES.answer(HttpRequest(method, path))
    assert answer.status == status
    assert ("X-Content-Type-Options", "nosniff") in answer.headers
