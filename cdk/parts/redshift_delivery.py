"""A Firehose delivery stream from a Kinesis stream through a bucket into a table of a Redshift cluster."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

import re
from collections.abc import Sequence

from aws_cdk import Token
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from cdk.parts.checks import check_name
from cdk.parts.delivery_options import DeliveryOptions
from cdk.parts.delivery_resources import Stream, may_read, may_write
from cdk.parts.stream_delivery import StreamDelivery

# Source: API_CopyCommand, API_RedshiftDestinationConfiguration; Redshift's rules for names.
TABLE_PATTERN = r"([A-Za-z_][\w$]{0,126}\.)?[A-Za-z_][\w$]{0,126}"
COLUMN_PATTERN = r"[A-Za-z_][\w$]{0,126}"
URL_PATTERN = r"jdbc:(redshift|postgresql)://[^/\s]+:\d{1,5}/[A-Za-z0-9_$-]+"
PREFIX_PATTERN = r"([^!\s]{0,1023}/)?"
MOST_OPTIONS = 10240
# The COPY options that Firehose sets itself.
_OWN_OPTIONS = re.compile(r"\b(manifest|gzip|credentials|iam_role)\b", re.IGNORECASE)


class RedshiftDelivery(StreamDelivery):
    """Loads the records of `source` into a table: writes compressed objects below `prefix`, and runs a COPY for each.

    The table must exist; until it does, Firehose retries COPY.
    """

    DEFAULT_RETRY_S = 3600

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        options: DeliveryOptions,
        *,
        jdbc_url: str,
        login: secretsmanager.ISecret,
        table: str,
        columns: Sequence[str] = (),
        copy_options: str = "json 'auto'",
        prefix: str = "redshift/",
    ) -> None:
        """Create it. Raises ValueError for arguments that AWS would refuse.

        Args:
            scope: the parent construct.
            construct_id: its id in the parent.
            options: what all deliveries have; the bucket also takes the objects that COPY reads; the buffer has up to
                128 MiB; Firehose retries COPY every five minutes, for an hour by default.
            jdbc_url: `jdbc:redshift://host:port/database`.
            login: a secret `{"username": "...", "password": "..."}`.
            table: the table's name, with its schema or without.
            columns: the columns to load; empty for all.
            copy_options: COPY's options beside the manifest, the credentials and GZIP.
            prefix: the objects' prefix, ending in a slash, without expressions.
        """
        _check(jdbc_url, table, columns, copy_options, prefix)
        super().__init__(scope, construct_id, options)
        self.finish(
            # Firehose writes the objects, and COPY reads them with the same role.
            [may_read(login), may_write(options.bucket, prefix)],
            redshift_destination_configuration=Stream.RedshiftDestinationConfigurationProperty(
                cluster_jdbcurl=jdbc_url,
                copy_command=Stream.CopyCommandProperty(
                    data_table_name=table,
                    data_table_columns=", ".join(columns) or None,
                    copy_options=f"{copy_options} gzip",
                ),
                retry_options=self.retries(Stream.RedshiftRetryOptionsProperty),
                role_arn=self.role.role_arn,
                s3_backup_mode="Disabled",
                s3_configuration=Stream.S3DestinationConfigurationProperty(
                    bucket_arn=options.bucket.bucket_arn,
                    role_arn=self.role.role_arn,
                    prefix=prefix,
                    error_output_prefix=options.error_prefix,
                    compression_format="GZIP",
                    buffering_hints=options.buffering(Stream.BufferingHintsProperty),
                ),
                cloud_watch_logging_options=self.logging,
                secrets_manager_configuration=self.login(login),
            ),
        )


def _check(
    jdbc_url: str, table: str, columns: Sequence[str], copy_options: str, prefix: str
) -> None:
    check_name("A table's name", table, TABLE_PATTERN)
    for column in columns:
        check_name("A column's name", column, COLUMN_PATTERN)
    check_name("A prefix", prefix, PREFIX_PATTERN)
    if not Token.is_unresolved(jdbc_url):
        check_name("A JDBC URL", jdbc_url, URL_PATTERN)
    own = _OWN_OPTIONS.search(copy_options)
    if own:
        raise ValueError(
            f"COPY's options must not contain {own.group(1).upper()}: this construct sets it."
        )
    if len(copy_options) > MOST_OPTIONS:
        raise ValueError(f"COPY's options must have at most {MOST_OPTIONS} characters.")
