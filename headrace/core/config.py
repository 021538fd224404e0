"""The cloud's configuration: one frozen value, built at the edge and passed down.

Each setting is declared once, here; `headrace up` makes its options from these declarations.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from headrace.core.arn import is_account_id

Durability = Literal["os", "fsync"]
Limits = Literal["off", "aws"]
Spark = Literal["label", "installed"]
Iam = Literal["off", "report", "enforce"]

DEFAULT_PORT = 4566
DEFAULT_REGION = "us-east-1"
DEFAULT_ACCOUNT_ID = "000000000000"
DEFAULT_MQTT_PORT, DEFAULT_MQTT_TLS_PORT = 1883, 8883
DEFAULT_LOG_GROUP_EVENTS = 25_000
DEFAULT_LOG_GROUP_MIB = 16
_MAX_STATE_DELAY_S = 3600
_MAX_PORT = 65_535
_REGION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


def home_folder() -> Path:
    """Return the user's home; the root for a user without one, as in a container."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def cache_home() -> Path:
    """Return the folder of the user's caches."""
    return Path(os.environ.get("XDG_CACHE_HOME") or home_folder() / ".cache").absolute()


@dataclass(frozen=True, slots=True)
class LayerFolder:
    """A folder on this machine that stands in for a Lambda layer.

    Attributes:
        arn: of the version, or of the layer for all its versions; it may have wildcards.
        folder: what is in `/opt` on AWS, such as a folder `python`.
    """

    arn: str
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a field of `Config` says beside its name, type and default.

    Attributes:
        help: the sentence for users.
        flag: the option's name; empty: the field's name.
        variable: the environment variable that the option overrides; empty: none.
        metavar: what the user's value is called; empty: its type.
        bounds: the lowest and the highest number; None: no bound.
        option_type: the type of the user's value, where it is not the field's.
        convert: returns the field's value for the user's. Raises ValueError with a sentence.
    """

    help: str
    flag: str = ""
    variable: str = ""
    metavar: str = ""
    bounds: tuple[int | None, int | None] | None = None
    option_type: type | None = None
    convert: Callable[[Any], Any] | None = None


def _seconds_to_ms(seconds: float) -> int:
    return round(seconds * 1000)


def _absolute(path: Path | None) -> Path | None:
    return None if path is None else path.absolute()


def _check_region(region: str) -> str:
    if _REGION.fullmatch(region) is None:
        raise ValueError(f"A region is a name such as {DEFAULT_REGION}, not {region!r}.")
    return region


def _check_account(account: str) -> str:
    if not is_account_id(account):
        raise ValueError(f"An account is 12 digits, not {account!r}.")
    return account


def _check_opensearch_url(text: str) -> str:
    try:
        url = urlsplit(text)
        is_server = (
            url.scheme in ("http", "https") and url.hostname and url.port != 0 and not url.query
        )
    except ValueError:
        is_server = False
    if text and not is_server:
        raise ValueError(
            f"{text!r} is not an OpenSearch server's URL, such as http://localhost:9200."
        )
    return text


def _check_postgres_url(text: str) -> str:
    try:
        url = urlsplit(text)
        is_server = (
            url.scheme in ("postgresql", "postgres")
            and url.hostname
            and url.username
            and url.port != 0
        )
    except ValueError:
        is_server = False
    if text and not is_server:
        raise ValueError(
            "--redshift takes a URL such as postgresql://user:password@localhost:5432/postgres."
        )
    return text


def _split_names(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Split at commas and blanks, since an environment variable holds several names in one text."""
    return tuple(name for text in texts for name in text.replace(",", " ").split())


def _parse_layers(texts: tuple[str, ...]) -> tuple[LayerFolder, ...]:
    layers: list[LayerFolder] = []
    for text in texts:
        arn, equals, folder = text.partition("=")
        if not equals or not arn.startswith("arn:") or ":layer:" not in arn:
            raise ValueError(
                f"--layer takes ARN=FOLDER, with the ARN of a Lambda layer, not {text!r}."
            )
        path = Path(folder).expanduser().resolve()
        if not path.is_dir():
            raise ValueError(f"--layer: there is no folder {folder!r}.")
        layers.append(LayerFolder(arn, path))
    return tuple(layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings that a cloud is started with: the folder of all its state, and what each `help` says."""

    data_dir: Path
    host: Annotated[str, Setting(help="Address to bind.")] = "127.0.0.1"
    port: Annotated[
        int,
        Setting(
            help="0 takes a free port.",
            bounds=(0, _MAX_PORT),
            variable="HEADRACE_PORT",
        ),
    ] = DEFAULT_PORT
    region: Annotated[
        str,
        Setting(
            help="The region of requests that name none.",
            convert=_check_region,
        ),
    ] = DEFAULT_REGION
    # The account of every access key that is not itself a 12-digit account id.
    account_id: Annotated[
        str,
        Setting(
            help="The id of the account: 12 digits.",
            flag="--account",
            convert=_check_account,
        ),
    ] = DEFAULT_ACCOUNT_ID
    durability: Annotated[
        Durability, Setting(help="os: survives kill -9; fsync: survives a power cut.")
    ] = "os"
    # It also refuses Spark jobs that would run on another Spark version than their release label's.
    strict: Annotated[
        bool, Setting(help="Refuse parameters and template properties that headrace would ignore.")
    ] = False
    spark: Annotated[
        Spark,
        Setting(
            help="label: each Spark job runs with the Spark of its release label; installed: all with headrace's own.",
            variable="HEADRACE_SPARK",
        ),
    ] = "label"
    # Delivery streams too.
    state_delay_ms: Annotated[
        int,
        Setting(
            help="Seconds that Kinesis streams and consumers stay CREATING, UPDATING or DELETING.",
            flag="--state-delay",
            bounds=(0, _MAX_STATE_DELAY_S),
            option_type=float,
            convert=_seconds_to_ms,
        ),
    ] = 0
    limits: Annotated[
        Limits,
        Setting(
            help="aws: throttle Kinesis, shard by shard and call by call, and Firehose's direct puts as AWS does.",
            variable="HEADRACE_LIMITS",
        ),
    ] = "off"
    iam: Annotated[
        Iam,
        Setting(
            help="report: note requests that AWS would deny (headrace iam report); enforce: deny them;"
            " off: do not check.",
            variable="HEADRACE_IAM",
        ),
    ] = "report"
    run_bootstrap_actions: Annotated[
        bool, Setting(help="Run the bootstrap actions of EMR clusters, on this machine.")
    ] = False
    function_folders: Annotated[
        tuple[Path, ...],
        Setting(
            help="A folder that Lambda functions may read and write, beside their own /tmp.",
            flag="--function-folder",
            variable="HEADRACE_FUNCTION_FOLDERS",
        ),
    ] = ()
    layers: Annotated[
        tuple[LayerFolder, ...],
        Setting(
            help=(
                "The content of a Lambda layer, which another account may own; in the ARN, * stands for any text. May"
                " be repeated."
            ),
            flag="--layer",
            variable="HEADRACE_LAYERS",
            metavar="ARN=FOLDER",
            convert=_parse_layers,
        ),
    ] = ()
    log_group_events: Annotated[
        int,
        Setting(
            help="How many events of a CloudWatch log group are kept; the oldest are dropped.",
            bounds=(1, None),
            variable="HEADRACE_LOG_GROUP_EVENTS",
        ),
    ] = DEFAULT_LOG_GROUP_EVENTS
    log_group_mib: Annotated[
        int,
        Setting(
            help="How many MiB of messages of a CloudWatch log group are kept.",
            bounds=(1, None),
            variable="HEADRACE_LOG_GROUP_MIB",
        ),
    ] = DEFAULT_LOG_GROUP_MIB
    opensearch_url: Annotated[
        str,
        Setting(
            help="Your own OpenSearch server, for the documents of all domains; default: a small one in the data"
            " directory.",
            flag="--opensearch",
            variable="HEADRACE_OPENSEARCH",
            metavar="URL",
            convert=_check_opensearch_url,
        ),
    ] = ""
    redshift_url: Annotated[
        str,
        Setting(
            help=(
                "Your own PostgreSQL (postgresql://user:password@host:port/), for the tables of Redshift clusters;"
                " without it one for each cluster in the data directory, by the extra headrace[redshift]."
            ),
            flag="--redshift",
            variable="HEADRACE_REDSHIFT",
            metavar="URL",
            convert=_check_postgres_url,
        ),
    ] = ""
    auth: Annotated[
        bool,
        Setting(
            help="Verify every request's signature; its key is printed at the start, in --auth-keys, or made by IAM."
        ),
    ] = False
    auth_keys: Annotated[
        Path | None,
        Setting(
            help="The keys that --auth accepts, in the form of ~/.aws/credentials; default: one is made and printed.",
            metavar="FILE",
            convert=_absolute,
        ),
    ] = None
    mqtt: Annotated[
        bool,
        Setting(
            help="Let devices connect to IoT by MQTT: with TLS and certificates, and, without --auth and --iam enforce,"
            " in plain text.",
            variable="HEADRACE_MQTT",
        ),
    ] = False
    mqtt_port: Annotated[
        int,
        Setting(help="The port of MQTT in plain text; 0 takes a free one.", bounds=(0, _MAX_PORT)),
    ] = DEFAULT_MQTT_PORT
    mqtt_tls_port: Annotated[
        int, Setting(help="The port of MQTT with TLS; 0 takes a free one.", bounds=(0, _MAX_PORT))
    ] = DEFAULT_MQTT_TLS_PORT
    allow_origins: Annotated[
        tuple[str, ...],
        Setting(
            help=(
                "Web pages of this origin may use the cloud, such as http://localhost:3000; '*' is every page"
                " that you visit. May be repeated."
            ),
            flag="--allow-origin",
            variable="HEADRACE_ALLOW_ORIGIN",
            metavar="ORIGIN",
            convert=_split_names,
        ),
    ] = ()
    allow_hosts: Annotated[
        tuple[str, ...],
        Setting(
            help=(
                "Answer to this host name too, beside localhost and this machine's addresses; *.name is all below it."
                " May be repeated."
            ),
            flag="--allow-host",
            variable="HEADRACE_ALLOW_HOST",
            metavar="NAME",
            convert=_split_names,
        ),
    ] = ()

    @property
    def endpoint_host(self) -> str:
        """The host of `endpoint_url`: a name or an address, without brackets."""
        return "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host

    @property
    def endpoint_url(self) -> str:
        """The URL that clients are given as AWS_ENDPOINT_URL."""
        host = self.endpoint_host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"
