"""Options that several commands share. A flag overrides its HEADRACE_* variable, which overrides the default."""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
import json
import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

import click

from headrace.cli.running_cloud import find_endpoint_url
from headrace.client.pages import Keys, ask, find_keys, is_here, signed_headers
from headrace.core.config import DEFAULT_PORT, DEFAULT_REGION

_PAGE_TIMEOUT_S = 10
_F = TypeVar("_F", bound=Callable[..., Any])


def print_table(table: Any, width: int) -> None:
    """Print rich's table: on a terminal as wide as that, its cells folded and nothing cut; elsewhere `width`."""
    from rich.console import Console

    is_terminal = _is_terminal()
    for column in table.columns:
        column.overflow = "fold"
    Console(width=None if is_terminal else width, highlight=False, soft_wrap=not is_terminal).print(
        table
    )


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def print_line(text: str) -> None:
    """Print a line: on a terminal broken between words, below its own indentation; elsewhere whole, for grep."""
    if _is_terminal():
        indent = text[: len(text) - len(text.lstrip())]
        text = textwrap.fill(
            text,
            shutil.get_terminal_size().columns,
            subsequent_indent=f"{indent}    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    click.echo(text)


_AGO = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?", re.ASCII)
MOMENTS = "an ISO time (of UTC, if it names no zone), 18:40 of this machine's clock, or so long ago: 30s, 5m, 2h, 1d"


def parse_moment(text: str, option: str, *, now: datetime | None = None) -> datetime:
    """Return the time that an option's text names, as `MOMENTS` says. Raises ClickException."""
    now = now or datetime.now(UTC)
    try:
        if ago := _AGO.fullmatch(text):
            return now - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]])
        if _CLOCK.fullmatch(text):
            clock = time.fromisoformat(text.zfill(5 if text.count(":") == 1 else 8))
            today = datetime.combine(now.astimezone().date(), clock)
            at = today.astimezone()
            return at if at <= now else (today - timedelta(days=1)).astimezone()
        at = datetime.fromisoformat(text)
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise fail(f"{option} {text!r} is not a time; it is {MOMENTS}.") from error


class NumberRange(click.FloatRange):
    """A range of numbers, which neither NaN nor infinity is in: click takes the first for one in any range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """See `click.ParamType`."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


def data_dir_option(function: _F) -> _F:
    """Add --data-dir."""
    return click.option(
        "--data-dir",
        # `usable` checks the path and reports a problem in one sentence.
        type=click.Path(readable=False, path_type=Path),
        default=Path(".headrace"),
        envvar="HEADRACE_DATA_DIR",
        show_default=True,
        help="The folder of all data of the cloud.",
    )(function)


def endpoint_url_option(function: _F) -> _F:
    """Add --endpoint-url."""
    return click.option(
        "--endpoint-url",
        envvar="AWS_ENDPOINT_URL",
        default=find_endpoint_url,
        show_default=f"of the cloud in .headrace, else port {DEFAULT_PORT}",
        callback=_endpoint_url,
        help="The URL of the cloud.",
    )(function)


def _endpoint_url(_: click.Context, _option: click.Parameter, url_text: str) -> str:
    try:
        url = urlsplit(url_text)
        is_one = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        is_one = False
    if not is_one:
        raise fail(f"{url_text!r} is not a cloud's URL, such as http://127.0.0.1:{DEFAULT_PORT}.")
    return url_text


def endpoint_option(function: _F) -> _F:
    """Add --endpoint-url, --region and --aws."""
    for option in (
        endpoint_url_option,
        click.option(
            "--region",
            envvar=["AWS_REGION", "AWS_DEFAULT_REGION"],
            default=DEFAULT_REGION,
            help="Default: AWS_REGION, AWS_DEFAULT_REGION, or us-east-1.",
        ),
        click.option("--aws", is_flag=True, help="Use AWS itself, with your own credentials."),
    ):
        function = option(function)
    return function


def client(service: str, *, endpoint_url: str, region: str, aws: bool) -> Any:
    """Return a boto3 client of the local cloud, or of AWS with `aws`. Raises ClickException with one sentence.

    The user's AWS configuration (profiles, proxies) has no effect on a client of the local cloud.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    retries: Any = {"mode": "standard"}
    try:
        if aws:
            # A new session: boto3's default session keeps the credentials that it found first.
            make: Any = cast("Any", boto3).Session().client
            config = Config(max_pool_connections=32, retries=retries)
            return make(service, region_name=region, config=config)
        make = _plain_boto3_session().client
        # Without --auth any key is accepted.
        keys = find_keys() or Keys("test", "test")
        return make(
            service,
            region_name=region,
            endpoint_url=endpoint_url,
            aws_access_key_id=keys.access_key,
            aws_secret_access_key=keys.secret,
            aws_session_token=keys.token,
            config=Config(
                max_pool_connections=32,
                retries=retries,
                proxies={} if is_here(endpoint_url) else None,
            ),
        )
    except (BotoCoreError, ValueError) as error:
        raise explain(error) from error


@functools.cache
def _plain_boto3_session() -> Any:
    """Return boto3's session over `_plain_session`: a second one would add boto3's methods to its clients again."""
    import boto3

    return cast("Any", boto3).Session(botocore_session=_plain_session())


@functools.cache
def _plain_session() -> Any:
    """Return the botocore session that knows nothing of the user's AWS configuration. One reads a model once."""
    from botocore.session import Session

    # A variable is its name in the files, its name in the environment, its default and its conversion.
    session_vars: Any = {
        name: (None, None, *rest) for name, (_, _, *rest) in Session.SESSION_VARIABLES.items()
    }
    # A cloud on this machine may need a CA of its own.
    del session_vars["ca_bundle"]
    for name in ("config_file", "credentials_file"):
        session_vars[name] = (None, None, os.devnull, None)
    return Session(session_vars=session_vars)


class _FrozenKeys(NamedTuple):
    """Keys as botocore gives them."""

    access_key: str
    secret_key: str
    token: str | None


class _LocalSession:
    """botocore's session for the local cloud, with these keys, of which it is itself the source.

    botocore takes a quarter of a second to load: that waits until somebody asks for more than keys.
    """

    method = "explicit"

    def __init__(self, keys: Keys) -> None:
        self._keys = _FrozenKeys(keys.access_key, keys.secret, keys.token)

    def get_credentials(self) -> _LocalSession:
        """See botocore's Session."""
        return self

    def get_frozen_credentials(self) -> _FrozenKeys:
        """See botocore's Credentials."""
        return self._keys

    def __getattr__(self, name: str) -> Any:
        """Return what botocore's session has by that name."""
        if name.startswith("_"):
            raise AttributeError(name)
        session = _plain_session()
        session.set_credentials(*self._keys)
        return getattr(session, name)


def client_options(*, endpoint_url: str, region: str, aws: bool) -> dict[str, Any]:
    """Return what a Producer or a ConsumerGroup takes to reach the local cloud, or AWS with `aws`; as `client` does."""
    if aws:
        return {"region": region}
    # Without --auth any key is accepted.
    keys = find_keys() or Keys("test", "test")
    return {"session": _LocalSession(keys), "region": region, "endpoint_url": endpoint_url}


def fetch_page(endpoint_url: str, path: str) -> Any:
    """Return the JSON of a cloud's page below `/_headrace/`, asked with the keys that are at hand.

    Raises HTTPError for a refusal, which its caller explains, and ClickException when no cloud answers.
    """
    from urllib.error import HTTPError
    from urllib.request import Request

    url = f"{endpoint_url}/_headrace/{path}"
    try:
        request = Request(url, headers=signed_headers(find_keys(), "GET", url))
        with ask(request, _PAGE_TIMEOUT_S) as answer:
            return json.load(answer)
    except HTTPError:
        raise
    except OSError as error:
        raise fail(f"No cloud answers at {endpoint_url}; start one: headrace up") from error
    except ValueError as error:
        raise fail(f"{endpoint_url} is not a headrace cloud.") from error


def split_s3_url(text: str) -> tuple[str, str] | None:
    """Return the bucket and the key or prefix of an s3:// URL; None for another text."""
    scheme, _, rest = text.partition("://")
    bucket, _, key = rest.partition("/")
    return (bucket, key) if scheme == "s3" and bucket else None


def fail(message: str) -> click.ClickException:
    """Return the exception that ends a command with one sentence and exit code 1."""
    return click.ClickException(message)


def usable(data_dir: Path) -> None:
    """End the command with one sentence unless the path is free or a readable directory."""
    from headrace.store.data_dir import DataDirUnusable, check_is_directory

    try:
        check_is_directory(data_dir)
    except DataDirUnusable as error:
        raise fail(str(error)) from error


def sentence(error: OSError) -> str:
    """Return an OSError as text: the file, if there is one, and the system's message, without the error number."""
    words = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {words}." if error.filename else f"{words}."


def explain(error: Exception) -> click.ClickException:
    """Turn an error of boto3 or of a file into one sentence."""
    return fail(error_text(error))


def error_text(error: Exception) -> str:
    """Return an error on one line: AWS's code and sentence, or the exception's message."""
    from botocore.exceptions import ClientError, EndpointConnectionError

    if isinstance(error, ClientError):
        details: Any = error.response.get("Error", {})
        return f"{details.get('Code', 'error')}: {details.get('Message', error)}"
    if isinstance(error, EndpointConnectionError):
        kwargs: Any = error.kwargs  # type: ignore[attr-defined]
        return f"No cloud answers at {kwargs.get('endpoint_url')}; start one: headrace up"
    if isinstance(error, OSError):
        return sentence(error)
    return " ".join(str(error).split())
