"""The options of `headrace up` that say who may use the cloud: which web pages, under which names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from headrace.aws.hosts import HostRefused, Hosts
from headrace.aws.origins import AllowedOrigins, OriginRefused
from headrace.cli.options import fail

_F = TypeVar("_F", bound=Callable[..., Any])


def _listed(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> Any:
    """Take several in one: an environment variable has but one value."""
    return tuple(part for value in values for part in value.replace(",", " ").split())


def access_options(function: _F) -> _F:
    """Add --allow-origin and --allow-host."""
    for option in (
        click.option(
            "--allow-origin",
            "allow_origins",
            multiple=True,
            callback=_listed,
            envvar="HEADRACE_ALLOW_ORIGIN",
            metavar="ORIGIN",
            help="Web pages of this origin may use the cloud, such as http://localhost:3000; '*' is every page"
            " that you look at. May be repeated.",
        ),
        click.option(
            "--allow-host",
            "allow_hosts",
            multiple=True,
            callback=_listed,
            envvar="HEADRACE_ALLOW_HOST",
            metavar="NAME",
            help="Answer to this name too, beside localhost and this machine's addresses; *.name is all below it."
            " May be repeated.",
        ),
    ):
        function = option(function)
    return function


def check_access(*, allow_origins: tuple[str, ...], allow_hosts: tuple[str, ...]) -> None:
    """Refuse what no cloud can be started with, in one sentence. Raises ClickException."""
    try:
        Hosts(allow_hosts)
        AllowedOrigins(allow_origins)
    except (HostRefused, OriginRefused) as error:
        raise fail(str(error)) from error


def warnings(*, allow_origins: tuple[str, ...]) -> list[str]:
    """Return what is to be said at the start about whom the options let in."""
    if "*" in allow_origins:
        return ["Every web page that you look at can use this cloud, and run code as you."]
    return []
