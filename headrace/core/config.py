"""The cloud's configuration: one frozen value, built at the edge and passed down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Durability = Literal["os", "fsync"]
Limits = Literal["off", "aws"]
Spark = Literal["label", "installed"]
Iam = Literal["off", "report", "enforce"]

DEFAULT_PORT = 4566
DEFAULT_REGION = "us-east-1"
DEFAULT_ACCOUNT_ID = "000000000000"
DEFAULT_LOG_GROUP_EVENTS = 25_000
DEFAULT_LOG_GROUP_MIB = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings that a cloud is started with.

    Attributes:
        data_dir: the folder of all state; nothing is written outside it.
        host: the address to bind; loopback by default.
        port: the TCP port; 0 takes a free one.
        region: the region of requests whose signature names none.
        account_id: the account of every access key that is not itself a 12-digit account id.
        durability: `os` acknowledges a write when the operating system has it (survives kill -9), `fsync` when the disk
            has it (survives a power cut).
        state_delay_ms: how long streams, consumers and delivery streams stay CREATING, UPDATING or DELETING.
        limits: `aws` throttles as AWS does: Kinesis's shards, Firehose's direct puts, and the rates of their calls.
        run_bootstrap_actions: run the bootstrap actions of EMR clusters on this machine.
        strict: refuse parameters and template properties that headrace would ignore, and Spark jobs that would run on
            another Spark version than their release label's.
        spark: `label` runs each Spark job with the Spark of its release label, `installed` runs all with headrace's
            own.
        function_folders: folders of this machine that functions may read and write, beside their own /tmp.
        log_group_events: how many events of a CloudWatch log group are kept in memory; the oldest are dropped.
        log_group_mib: how many MiB of messages of a log group are kept in memory.
        allow_origins: web pages of these origins may use the cloud; `*` is every page.
        allow_hosts: Host headers that this cloud accepts beside the machine's own names.
        auth: verify who signed each request.
        iam: `report` notes requests that AWS would deny, `enforce` denies them, `off` does not check.
        opensearch_url: the user's own OpenSearch, which holds the documents of all domains; empty: the data directory
            does.
        redshift_url: the user's own PostgreSQL, which holds the databases of all Redshift clusters; empty: each cluster
            has a PostgreSQL of its own in the data directory.
        auth_keys: the file that lists the keys, in the form of ~/.aws/credentials; None makes one key.
    """

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    region: str = DEFAULT_REGION
    account_id: str = DEFAULT_ACCOUNT_ID
    durability: Durability = "os"
    strict: bool = False
    spark: Spark = "label"
    state_delay_ms: int = 0
    limits: Limits = "off"
    run_bootstrap_actions: bool = False
    function_folders: tuple[Path, ...] = ()
    log_group_events: int = DEFAULT_LOG_GROUP_EVENTS
    log_group_mib: int = DEFAULT_LOG_GROUP_MIB
    allow_origins: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    auth: bool = False
    auth_keys: Path | None = None
    iam: Iam = "report"
    opensearch_url: str = ""
    redshift_url: str = ""

    @property
    def endpoint_host(self) -> str:
        """The host of `endpoint_url`: a name or an address, without brackets."""
        return "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host

    @property
    def endpoint_url(self) -> str:
        """The URL that clients are given as AWS_ENDPOINT_URL."""
        host = self.endpoint_host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"
