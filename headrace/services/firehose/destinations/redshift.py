"""The destination Redshift: records become an object in S3, a manifest names it, and COPY loads it into a table.

Every COPY happens once: its transaction also stores its name in the table's database. Sources:
docs.aws.amazon.com/firehose/latest/dev/basic-deliver.html, retry.html (documented).

The codes and sentences that Firehose logs when a COPY fails.

Source: docs.aws.amazon.com/firehose/latest/dev/monitoring-with-cloudwatch-logs.html, "Amazon Redshift Data Delivery
Errors" (documented codes; the sentences say the same in other words, and Redshift's own sentence follows).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.core.ports import CallerIdentity
from headrace.core.ports.warehouses import (
    Load,
    Login,
    WarehouseError,
    WarehouseNotFound,
    WarehouseUnavailable,
)
from headrace.core.values import get_mapping
from headrace.services.firehose import output
from headrace.services.firehose.destinations import common
from headrace.services.firehose.destinations.common import (
    EVERY_FIVE_MINUTES_S,
    Attempt,
    DeliveryRefusal,
    Outcome,
)
from headrace.services.firehose.errors import backup_stays, invalid
from headrace.services.firehose.permits import SESSION
from headrace.services.firehose.records import DELIVERED, FailedRecord, Ports
from headrace.services.firehose.s3_settings import check_plain_s3, complete_processors

_WHY = {
    "TableNotFound": "The table to load into does not exist. Firehose makes no tables.",
    "SyntaxError": "COPY has a syntax error.",
    "AuthenticationFailed": "The user name and the password are not accepted.",
    "AccessDenied": "Firehose may not assume the role.",
    "S3BucketAccessDenied": "The role may not read the S3 bucket for COPY.",
    "DataLoadFailed": "The data could not be loaded. See STL_LOAD_ERRORS.",
    "ColumnNotFound": "COPY names a column that the table does not have.",
    "DatabaseNotFound": "The database of the JDBC URL does not exist.",
    "IncorrectCopyOptions": "COPY has options that exclude one another, or one of them twice.",
    "MissingColumn": "A column that is NOT NULL and has no default is not in the column list.",
    "ConnectionFailed": "There is no connection to the cluster.",
    "ColumnMismatch": "The jsonpaths and the columns differ in number.",
    "IncorrectOrMissingRegion": "COPY looks for the bucket in another region.",
    "IncorrectJsonPathsFile": "The jsonpaths file is not in a form that is supported.",
    "MissingS3File": "An S3 object that COPY needs is not there any more.",
    "InsufficientPrivilege": "The user may not load data into the table.",
    "DiskFull": "The disk is full.",
}


def build_refusal(error: WarehouseError) -> DeliveryRefusal:
    """Return a failure with Firehose's code and sentence; every failure is tried again."""
    # A statement that fails on the table's data, for example on a check constraint, is a failed load.
    kind = error.kind if error.kind in _WHY else "DataLoadFailed"
    return DeliveryRefusal(f"Redshift.{kind}", f"{_WHY[kind]} {error}")


KIND = "Redshift"
DEFAULT_RETRY_S = 3600
MANIFESTS = "manifests/"
_COMPRESSIONS = ("UNCOMPRESSED", "GZIP")
_EXPRESSION = re.compile(r"!\{")
# Options that Firehose sets itself: the objects that COPY reads, and their region.
_OWN_OPTIONS = re.compile(
    r"\b(manifest|credentials|iam_role|access_key_id|secret_access_key)\b", re.IGNORECASE
)


class RedshiftDestination:
    """See `Destination`. COPY reads objects that the destination puts to its S3Configuration."""

    kind = KIND
    # AWS puts the manifests of failed loads under errors/manifests/YYYY/MM/dd/HH/ after the prefix.
    error_type = "errors/manifests"
    metrics = "DeliveryToRedshift"

    def check(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.checked`. The model documents what AWS refuses; the sentences are assumed."""
        checked = dict(configuration)
        s3 = checked["S3Configuration"] = check_plain_s3(get_mapping(checked, "S3Configuration"))
        if s3["CompressionFormat"] not in _COMPRESSIONS:
            raise invalid(
                f"Compression format {s3['CompressionFormat']} is not supported for Redshift destination."
            )
        if _EXPRESSION.search(str(s3.get("Prefix") or "")):
            raise invalid("Expressions in Prefix are not supported for Redshift destination.")
        _check_credentials(checked)
        checked["RetryOptions"] = {
            "DurationInSeconds": DEFAULT_RETRY_S,
            **get_mapping(checked, "RetryOptions"),
        }
        if checked.setdefault("S3BackupMode", "Disabled") == "Enabled":
            if not checked.get("S3BackupConfiguration"):
                raise invalid("S3BackupConfiguration is required when S3BackupMode is Enabled.")
            checked["S3BackupConfiguration"] = check_plain_s3(checked["S3BackupConfiguration"])
        common.check_logging(checked)
        complete_processors(checked)
        return checked

    def update(self, present: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.updated`. A backup cannot be disabled (documented: the model's text of S3BackupMode)."""
        change = dict(update)
        if "S3BackupUpdate" in change:
            change["S3BackupConfiguration"] = {
                **get_mapping(present, "S3BackupConfiguration"),
                **change.pop("S3BackupUpdate"),
            }
        if present.get("S3BackupMode") == "Enabled" and change.get("S3BackupMode") == "Disabled":
            raise backup_stays()
        return self.check(common.merge_update(present, change))

    def describe(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.described`: without the password, as in AWS's model."""
        shown = common.describe_configuration(configuration)
        shown.pop("Password", None)
        if "S3BackupConfiguration" in shown:
            shown["S3BackupDescription"] = shown.pop("S3BackupConfiguration")
        return {"RedshiftDestinationDescription": shown}

    def retry_s(self, configuration: Mapping[str, Any]) -> float:
        """See `Destination.retry_s`."""
        return common.retry_s(configuration)

    def wait_s(self, attempts: int, ids_random: float) -> float:
        """See `Destination.wait_s`."""
        return EVERY_FIVE_MINUTES_S

    def deliver(self, attempt: Attempt) -> Outcome:
        """See `Destination.deliver`. Exactly once, also after kill -9."""
        outcome = Outcome()
        if not attempt.records:
            _delete(attempt)
            return outcome
        began_s = attempt.ports.clock.monotonic_s()
        size_bytes = _put(attempt)
        outcome.objects = 1
        if attempt.number == 1:
            fresh_s = max(0, attempt.ports.clock.now_ms() - attempt.intent.oldest_ms) / 1000
            outcome.measured += [
                ("DeliveryToS3.Bytes", size_bytes, "Bytes"),
                ("DeliveryToS3.Records", len(attempt.records), "Count"),
                ("DeliveryToS3.Success", 1, "Count"),
                ("DeliveryToS3.DataFreshness", fresh_s, "Seconds"),
            ]
        refused = _load(attempt)
        # An attempt that takes longer than the retry duration is not repeated (documented: RedshiftRetryOptions).
        took_s = attempt.ports.clock.monotonic_s() - began_s
        if refused is not None and took_s > self.retry_s(attempt.stream.destination):
            refused = DeliveryRefusal(refused.code, refused.message, is_retryable=False)
        common.take(outcome, attempt, attempt.records, refused)
        outcome.size_bytes = size_bytes if refused is None else 0
        return outcome

    def error_line(self, failure: FailedRecord, attempt: Attempt) -> dict[str, Any]:
        """See `Destination.error_line`. Not used: `error_body` returns the whole error output."""
        return {"url": _build_url(attempt, attempt.intent.keys[DELIVERED]), "mandatory": True}

    def error_body(self, failures: Sequence[FailedRecord], attempt: Attempt) -> bytes:
        """See `ErrorFile`: the manifest of the object that was not loaded, for a manual COPY."""
        return _build_manifest(attempt)


def _check_credentials(configuration: Mapping[str, Any]) -> None:
    manager = get_mapping(configuration, "SecretsManagerConfiguration")
    if manager.get("Enabled"):
        if not manager.get("SecretARN"):
            raise invalid("SecretARN is required when SecretsManagerConfiguration is enabled.")
    elif not (configuration.get("Username") and configuration.get("Password")):
        raise invalid(
            "Username and Password are required when SecretsManagerConfiguration is not enabled."
        )
    options = str(get_mapping(configuration, "CopyCommand").get("CopyOptions") or "")
    own = _OWN_OPTIONS.search(options)
    if own:
        raise invalid(f"CopyOptions must not contain {own.group(1).upper()}.")


def _put(attempt: Attempt) -> int:
    """Put the object with the records, and its manifest; return the object's size in bytes."""
    stream = attempt.stream
    key = attempt.intent.keys[DELIVERED]
    delimiter = output.find_delimiter(stream.destination)
    body = delimiter.join([record.data for record in attempt.records])
    encoding: str | None = None
    if stream.s3["CompressionFormat"] != "UNCOMPRESSED":
        body, encoding = output.compress_body(body, "GZIP", key)
    for name, data, content in (
        (key, body, encoding),
        (build_manifest_key(attempt), _build_manifest(attempt), None),
    ):
        output.put_beside(attempt.ports, stream.s3, name, data, content)
    return len(body)


def _delete(attempt: Attempt) -> None:
    """Delete the objects of an earlier try whose records are now all dropped."""
    objects, stream = attempt.ports.objects, attempt.stream
    if attempt.again:
        for key in (attempt.intent.keys[DELIVERED], build_manifest_key(attempt)):
            if any(item.key == key for item in objects.list(stream.bucket, key)):
                objects.delete(stream.bucket, key)


def build_manifest_key(attempt: Attempt) -> str:
    """Return the key of a delivery's manifest: the object's key under manifests/ (observed by users of AWS)."""
    key, prefix = attempt.intent.keys[DELIVERED], attempt.stream.prefix
    return prefix + MANIFESTS + key.removeprefix(prefix).removesuffix(".gz")


def _build_url(attempt: Attempt, key: str) -> str:
    return f"s3://{attempt.stream.bucket}/{key}"


def _build_manifest(attempt: Attempt) -> bytes:
    url = _build_url(attempt, attempt.intent.keys[DELIVERED])
    return json.dumps({"entries": [{"url": url, "mandatory": True}]}).encode()


def _load(attempt: Attempt) -> DeliveryRefusal | None:
    """Run COPY on the object; return why it failed, else None."""
    stream, ports = attempt.stream, attempt.ports
    configuration, intent = stream.destination, attempt.intent
    role = str(configuration["RoleARN"])
    try:
        login = _read_login(attempt)
    except common.SecretMissing as error:
        return DeliveryRefusal("Redshift.SecretsManagerFailure", str(error))  # code assumed
    # The id comes from the records, not from the object's name, which changes with the stream.
    once = common.build_stable_id(
        stream, "copy", str(intent.decided_ms), json.dumps(intent.last, sort_keys=True)
    )
    load = Load(
        jdbc_url=str(configuration["ClusterJDBCURL"]),
        login=login,
        sql=copy_sql(configuration, _build_url(attempt, build_manifest_key(attempt))),
        role=role,
        once=once,
        account=stream.account,
        region=stream.region,
        may_read=_may_read(ports),
    )
    try:
        ports.warehouses.load(load)
    except WarehouseError as error:
        return build_refusal(error)
    except (WarehouseNotFound, WarehouseUnavailable) as error:
        return build_refusal(WarehouseError("ConnectionFailed", str(error)))
    return None


def _may_read(ports: Ports) -> Any:
    def denial(role: str, action: str, resource: str) -> str:
        return ports.guard.denial(CallerIdentity(role, SESSION), action, resource)

    return denial


def _read_login(attempt: Attempt) -> Login:
    """Return the login. Raises SecretMissing."""
    configuration = attempt.stream.destination
    secret = common.read_secret(configuration, attempt.ports, attempt.stream)
    if secret is None:
        return Login(str(configuration["Username"]), str(configuration["Password"]))
    if not secret.get("username") or not secret.get("password"):
        raise common.SecretMissing("The secret has no username and password.")
    return Login(secret["username"], secret["password"])


def copy_sql(configuration: Mapping[str, Any], manifest_url: str) -> str:
    """Return the COPY statement without its credentials."""
    command = get_mapping(configuration, "CopyCommand")
    columns = str(command.get("DataTableColumns") or "").strip()
    listed = f" ({columns})" if columns else ""
    options = str(command.get("CopyOptions") or "").strip().rstrip(";")
    url = manifest_url.replace("'", "''")
    return f"COPY {command['DataTableName']}{listed} FROM '{url}' MANIFEST {options}".strip()
