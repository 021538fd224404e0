"""Checks who may use a cloud that `headrace up` starts: which web pages, under which names, with which keys."""

from __future__ import annotations

from headrace.aws.gateway.hosts import (
    AllowedOrigins,
    HostRefused,
    Hosts,
    OriginRefused,
    is_loopback,
)
from headrace.aws.signatures.access_keys import KeysRefused, read_keys, read_secrets
from headrace.cli.options import fail
from headrace.core.config import Config


def check_access(config: Config, *, insecure: bool) -> None:
    """Refuse invalid or unsafe settings. Raises ClickException with one sentence.

    Args:
        config: the cloud's settings.
        insecure: allow connections from other machines without keys.
    """
    try:
        Hosts(config.allow_hosts)
        AllowedOrigins(config.allow_origins)
        if config.auth_keys is not None:
            read_keys(config.auth_keys)
    except (HostRefused, OriginRefused, KeysRefused) as error:
        raise fail(str(error)) from error
    if _is_open(config) and not insecure:
        raise fail(
            f"On {config.host} everybody who reaches this machine could run code as you: start with --auth, which"
            " asks for keys, or with --insecure."
        )


def _is_open(config: Config) -> bool:
    """Whether other machines can reach the cloud without a key."""
    try:
        return not config.auth and not is_loopback(config.host)
    except OSError as error:
        raise fail(f"Cannot listen on {config.host}: {error.strerror}.") from error


def access_warnings(config: Config) -> list[str]:
    """Return warnings about the access that the settings allow, for the start."""
    lines: list[str] = []
    if _is_open(config):
        lines.append(
            f"Everybody who reaches {config.host} can use this cloud, and run code as you."
        )
    if "*" in config.allow_origins:
        lines.append("Every web page that you visit can use this cloud, and run code as you.")
    if config.auth_keys is not None and config.auth_keys.stat().st_mode & 0o077:
        lines.append(
            f"Others can read the keys in {config.auth_keys}: chmod 600 {config.auth_keys}"
        )
    return lines


def how_to_use(config: Config, endpoint_url: str) -> list[str]:
    """Return how to use a cloud that requires keys: one key, and the URL of its pages."""
    secrets = read_secrets(config.data_dir) if config.auth else None
    if secrets is None:
        return []
    if config.auth_keys is not None:
        keys = f"the keys are those of {config.auth_keys}"
    else:
        keys = (
            f"export AWS_ACCESS_KEY_ID={secrets.access_key_id}"
            f" AWS_SECRET_ACCESS_KEY={secrets.secret_access_key}"
        )
    return [keys, f"its pages: {endpoint_url}/_headrace/?token={secrets.page_token}"]
