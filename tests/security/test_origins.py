"""Telling from a request's headers whose page sent it, and reading the origins of `--allow-origin`."""

from __future__ import annotations

import pytest

from headrace.aws.gateway.hosts import (
    NULL,
    UNNAMED,
    AllowedOrigins,
    OriginRefused,
    foreign_origin,
    origin_of,
)


@pytest.mark.parametrize(
    ("headers", "origin"),
    [
        ({}, None),
        ({"origin": "http://h:1"}, None),
        ({"origin": "http://H:1", "sec-fetch-site": "same-origin"}, None),
        ({"origin": "https://h:1"}, "https://h:1"),
        ({"origin": "http://h"}, "http://h"),
        ({"origin": "http://h:1", "sec-fetch-site": "cross-site"}, NULL),
        ({"sec-fetch-site": "same-site"}, UNNAMED),
        ({"sec-fetch-site": "cross-site", "referer": "https://a.b/c?d"}, "https://a.b"),
        ({"sec-fetch-site": "cross-site", "referer": "about:blank"}, UNNAMED),
        ({"sec-fetch-site": "none,cross-site"}, UNNAMED),
        ({"referer": "https://a.b/"}, None),
    ],
)
def test_whose_page_asks(headers: dict[str, str], origin: str | None):
    assert foreign_origin({"host": "h:1", **headers}) == origin


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://a", "http://a"),
        ("HTTP://A.b:80/x", "http://a.b"),
        ("https://a:443?x", "https://a"),
        ("http://a:443", "http://a:443"),
        ("chrome-extension://abc/", "chrome-extension://abc"),
        ("http://user@a/", None),
        ("about:blank", None),
        ("null", None),
        ("", None),
    ],
)
def test_origins_are_written_as_browsers_write_them(url: str, origin: str | None):
    assert origin_of(url) == origin


@pytest.mark.parametrize("text", ["x", "http://a/b", "http://*.a", "null", "", "http://", "a.b:80"])
def test_what_is_no_origin_is_refused_in_a_sentence(text: str):
    with pytest.raises(
        OriginRefused, match=r"^--allow-origin (takes an origin|does not take null)"
    ):
        AllowedOrigins([text])


def test_a_star_lets_in_every_page():
    everybody = AllowedOrigins(["*"])
    assert all(origin in everybody for origin in ("http://a", NULL, UNNAMED))
