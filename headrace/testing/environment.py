"""Sets the environment variables by which AWS's SDKs find a cloud and its credentials, and restores them."""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Generator, Mapping
from typing import Any

import boto3
import botocore.session

# What would lead an SDK to a real account, or elsewhere than to the cloud of the test.
_ASTRAY = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_CA_BUNDLE",
)
SECRET = "test"


def harmless() -> dict[str, str | None]:
    """Return variables with which no SDK finds a real account; None removes one."""
    endpoints = [name for name in os.environ if name.startswith("AWS_ENDPOINT_URL")]
    return {
        **dict.fromkeys((*_ASTRAY, *endpoints)),
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def pointing_at(endpoint_url: str, *, account: str, region: str) -> dict[str, str | None]:
    """Return variables with which every SDK uses a cloud, as an account."""
    return {
        **harmless(),
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": account,
        "AWS_DEFAULT_REGION": region,
        "AWS_REGION": region,
    }


class Variables:
    """Environment variables that are had again and again; None removes one.

    They are encoded once, and compared with what `os.environ` keeps of the system's: what is so already is left alone.
    """

    def __init__(self, values: Mapping[str, str | None]) -> None:
        environ: Any = os.environ
        self._kept: dict[Any, Any] = environ._data  # noqa: SLF001 - its own look-up encodes and decodes each time
        self._wanted: list[tuple[Any, Any]] = [
            (environ.encodekey(name), None if value is None else environ.encodevalue(value))
            for name, value in values.items()
        ]

    @contextlib.contextmanager
    def entered(self) -> Generator[None]:
        """Have these variables inside the block, and those of before after it."""
        look = self._kept.get
        before = [(name, look(name)) for name, _ in self._wanted]
        self._put(self._wanted)
        try:
            yield
        finally:
            self._put(before)

    def _put(self, values: list[tuple[Any, Any]]) -> None:
        kept = self._kept
        for name, value in values:
            if kept.get(name) == value:
                continue
            if value is None:
                os.unsetenv(name)
                del kept[name]
            else:
                os.putenv(name, value)
                kept[name] = value


def variables(values: Mapping[str, str | None]) -> contextlib.AbstractContextManager[None]:
    """Have these variables inside the block, and those of before after it; None removes one."""
    return Variables(values).entered()


@contextlib.contextmanager
def fresh_default_session() -> Generator[None]:
    """Have `boto3.client()` make its session anew inside the block: it keeps the credentials that it once found."""
    with default_session(session()):
        yield


@contextlib.contextmanager
def default_session(wanted: Any) -> Generator[None]:
    """Have `boto3.client()` use a session inside the block."""
    before = boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION = wanted
    try:
        yield
    finally:
        boto3.DEFAULT_SESSION = before


def session(endpoint_url: str = "", *, kind: Any = boto3.Session, **settings: str) -> Any:
    """Return a new boto3 session that reads no model of AWS's twice: that takes most of a client's making.

    Args:
        endpoint_url: of its clients; the environment's without one.
        kind: its class.
        settings: those of `boto3.Session`.
    """
    made = botocore.session.Session()
    made.register_component("data_loader", _models())
    if endpoint_url:
        made.set_config_variable("endpoint_url", endpoint_url)
    return kind(botocore_session=made, **settings)


@functools.cache
def _models() -> Any:
    """Return what reads AWS's models, and keeps them."""
    return botocore.session.Session().get_component("data_loader")
