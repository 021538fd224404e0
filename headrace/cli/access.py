"""The options of `headrace up` that say who may use the cloud: which web pages, under which names, with which keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from headrace.aws.gateway.hosts import HostRefused, Hosts, is_loopback
from headrace.aws.gateway.origins import AllowedOrigins, OriginRefused
from headrace.aws.signatures.access_keys import KeysRefused, read_keys, read_secrets
from headrace.cli.options import fail

_F = TypeVar("_F", bound=Callable[..., Any])


def _split_values(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> Any:
    """Split values at commas and blanks, since an environment variable holds several values in one text."""
    return tuple(part for value in values for part in value.replace(",", " ").split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The values of these options.

    Attributes:
        insecure: allow connections from other machines without keys.
    """

    host: str
    allow_origins: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    auth: bool = False
    auth_keys: Path | None = None
    insecure: bool = False

    def check(self) -> None:
        """Refuse invalid or unsafe options. Raises ClickException with one sentence."""
        try:
            Hosts(self.allow_hosts)
            AllowedOrigins(self.allow_origins)
            if self.auth_keys is not None:
                read_keys(self.auth_keys)
        except (HostRefused, OriginRefused, KeysRefused) as error:
            raise fail(str(error)) from error
        if self._is_open() and not self.insecure:
            raise fail(
                f"On {self.host} everybody who reaches this machine could run code as you: start with --auth, which"
                " asks for keys, or with --insecure."
            )

    def _is_open(self) -> bool:
        """Whether other machines can reach the cloud without a key."""
        try:
            return not self.auth and not is_loopback(self.host)
        except OSError as error:
            raise fail(f"Cannot listen on {self.host}: {error.strerror}.") from error

    def warnings(self) -> list[str]:
        """Return warnings about the access that the options allow, for the start."""
        lines: list[str] = []
        if self._is_open():
            lines.append(
                f"Everybody who reaches {self.host} can use this cloud, and run code as you."
            )
        if "*" in self.allow_origins:
            lines.append("Every web page that you visit can use this cloud, and run code as you.")
        if self.auth_keys is not None and self.auth_keys.stat().st_mode & 0o077:
            lines.append(
                f"Others can read the keys in {self.auth_keys}: chmod 600 {self.auth_keys}"
            )
        return lines


def how_to_use(data_dir: Path, endpoint_url: str, access: Access) -> list[str]:
    """Return how to use a cloud that requires keys: one key, and the URL of its pages."""
    secrets = read_secrets(data_dir) if access.auth else None
    if secrets is None:
        return []
    if access.auth_keys is not None:
        keys = f"the keys are those of {access.auth_keys}"
    else:
        keys = (
            f"export AWS_ACCESS_KEY_ID={secrets.access_key_id}"
            f" AWS_SECRET_ACCESS_KEY={secrets.secret_access_key}"
        )
    return [keys, f"its pages: {endpoint_url}/_headrace/?token={secrets.page_token}"]


def access_options(function: _F) -> _F:
    """Add --auth, --auth-keys, --insecure, --allow-origin and --allow-host."""
    for option in (
        click.option(
            "--allow-host",
            "allow_hosts",
            multiple=True,
            callback=_split_values,
            envvar="HEADRACE_ALLOW_HOST",
            metavar="NAME",
            help="Answer to this host name too, beside localhost and this machine's addresses; *.name is all below it."
            " May be repeated.",
        ),
        click.option(
            "--allow-origin",
            "allow_origins",
            multiple=True,
            callback=_split_values,
            envvar="HEADRACE_ALLOW_ORIGIN",
            metavar="ORIGIN",
            help="Web pages of this origin may use the cloud, such as http://localhost:3000; '*' is every page"
            " that you visit. May be repeated.",
        ),
        click.option(
            "--insecure", is_flag=True, help="Accept connections from other machines without keys."
        ),
        click.option(
            "--auth-keys",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="The keys that --auth accepts, in the form of ~/.aws/credentials; default: one is made and printed.",
        ),
        click.option(
            "--auth",
            is_flag=True,
            help="Verify every request's signature; its key is printed at the start, in --auth-keys, or made by IAM.",
        ),
    ):
        function = option(function)
    return function
