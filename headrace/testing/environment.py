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

# Variables that would send an SDK to a real account or to another cloud than the test's.
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
    """Return environment variables with which no SDK finds a real account; a value of None removes the variable."""
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
    """Return environment variables with which every SDK uses one account of a cloud."""
    return {
        **harmless(),
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": account,
        "AWS_DEFAULT_REGION": region,
        "AWS_REGION": region,
    }


@contextlib.contextmanager
def variables(values: Mapping[str, str | None]) -> Generator[None]:
    """Set variables inside the block, and restore the former values after it; None removes a variable."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextlib.contextmanager
def fresh_default_session() -> Generator[None]:
    """Give `boto3.client()` a new default session inside the block, because a session keeps its credentials."""
    with default_session(session()):
        yield


@contextlib.contextmanager
def default_session(default: Any) -> Generator[None]:
    """Make a session boto3's default session inside the block."""
    before = boto3.DEFAULT_SESSION
    boto3.DEFAULT_SESSION = default
    try:
        yield
    finally:
        boto3.DEFAULT_SESSION = before


def session(endpoint_url: str = "", *, kind: Any = boto3.Session, **settings: str) -> Any:
    """Return a new boto3 session that shares AWS's parsed models: to parse them takes most of a client's creation.

    Args:
        endpoint_url: the endpoint of its clients; the default is the environment's.
        kind: the session's class.
        settings: the arguments of `boto3.Session`.
    """
    botocore_session = botocore.session.Session()
    botocore_session.register_component("data_loader", _models())
    if endpoint_url:
        botocore_session.set_config_variable("endpoint_url", endpoint_url)
    return kind(botocore_session=botocore_session, **settings)


@functools.cache
def _models() -> Any:
    """Return a loader that reads AWS's models once and keeps them."""
    return botocore.session.Session().get_component("data_loader")
