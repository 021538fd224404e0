"""Options that several commands share, and how configuration is put together: defaults < HEADRACE_* < flags."""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from headrace.client.signing import Keys, find_keys
from headrace.core.config import DEFAULT_PORT, DEFAULT_REGION

_F = TypeVar("_F", bound=Callable[..., Any])


def data_dir_option(function: _F) -> _F:
    """Add --data-dir."""
    return click.option(
        "--data-dir",
        # What is there is looked at by `usable`, which says what is wrong in one sentence.
        type=click.Path(readable=False, path_type=Path),
        default=Path(".headrace"),
        envvar="HEADRACE_DATA_DIR",
        show_default=True,
        help="Where the cloud keeps everything.",
    )(function)


def endpoint_option(function: _F) -> _F:
    """Add --endpoint-url, --region and --aws."""
    for option in (
        click.option(
            "--endpoint-url",
            envvar="AWS_ENDPOINT_URL",
            default=f"http://127.0.0.1:{DEFAULT_PORT}",
            show_default=True,
            help="The cloud to talk to.",
        ),
        click.option(
            "--region", envvar=["AWS_REGION", "AWS_DEFAULT_REGION"], default=DEFAULT_REGION
        ),
        click.option("--aws", is_flag=True, help="Talk to AWS itself, with your own credentials."),
    ):
        function = option(function)
    return function


def client(service: str, *, endpoint_url: str, region: str, aws: bool) -> Any:
    """Return a boto3 client of the local cloud, or of AWS with `aws`."""
    import boto3
    from botocore.config import Config

    make: Any = cast("Any", boto3).client
    config = Config(max_pool_connections=32, retries={"mode": "standard"})
    if aws:
        return make(service, region_name=region, config=config)
    # Without --auth any key will do.
    keys = find_keys() or Keys("test", "test")
    return make(
        service,
        region_name=region,
        endpoint_url=endpoint_url,
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret,
        aws_session_token=keys.token,
        config=config,
    )


def fail(message: str) -> click.ClickException:
    """Return the exception that ends a command with one sentence and exit code 1."""
    return click.ClickException(message)


def usable(data_dir: Path) -> None:
    """End the command with one sentence when something else than a readable directory is there."""
    from headrace.store.data_dir import DataDirUnusable, check_is_directory

    try:
        check_is_directory(data_dir)
    except DataDirUnusable as error:
        raise fail(str(error)) from error


def explain(error: Exception) -> click.ClickException:
    """Turn a botocore error into one sentence."""
    from botocore.exceptions import ClientError, EndpointConnectionError

    if isinstance(error, ClientError):
        details: Any = error.response.get("Error", {})
        return fail(f"{details.get('Code', 'error')}: {details.get('Message', error)}")
    if isinstance(error, EndpointConnectionError):
        return fail(
            f"No cloud answers at {error.kwargs.get('endpoint_url')}; start one: headrace up"
        )  # type: ignore[attr-defined]
    return fail(str(error))
