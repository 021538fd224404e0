"""A Firehose delivery stream from a Kinesis stream through a bucket into a table of a Redshift cluster."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

import re
from collections.abc import Sequence

from aws_cdk import Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kinesisfirehose as firehose
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from cdk.parts.checks import check_name
from cdk.parts.stream_delivery import Buffering, StreamDelivery

# Source: API_CopyCommand, API_RedshiftDestinationConfiguration; Redshift's rules for names.
TABLE_PATTERN = r"([A-Za-z_][\w$]{0,126}\.)?[A-Za-z_][\w$]{0,126}"
COLUMN_PATTERN = r"[A-Za-z_][\w$]{0,126}"
URL_PATTERN = r"jdbc:(redshift|postgresql)://[^/\s]+:\d{1,5}/[A-Za-z0-9_$-]+"
PREFIX_PATTERN = r"([^!\s]{0,1023}/)?"
MOST_MIB = 128
MOST_OPTIONS = 10240
# The COPY options that Firehose sets itself.
_OWN_OPTIONS = re.compile(r"\b(manifest|gzip|credentials|iam_role)\b", re.IGNORECASE)


class RedshiftDelivery(StreamDelivery):
    """Loads the records of `source` into a table: writes compressed objects below `prefix`, and runs a COPY for each.

    The table must exist; until it does, Firehose retries COPY.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        source: kinesis.IStream,
        bucket: s3.IBucket,
        error_prefix: str,
        jdbc_url: str,
        login: secretsmanager.ISecret,
        table: str,
        columns: Sequence[str] = (),
        copy_options: str = "json 'auto'",
        prefix: str = "redshift/",
        buffering: Buffering | None = None,
    ) -> None:
        """Create it. Raises ValueError for arguments that AWS would refuse.

        Args:
            scope: the parent construct.
            construct_id: its id in the parent.
            name: see `StreamDelivery`.
            source: see `StreamDelivery`.
            bucket: also takes the objects that COPY reads.
            error_prefix: see `StreamDelivery`.
            jdbc_url: `jdbc:redshift://host:port/database`.
            login: a secret `{"username": "...", "password": "..."}`.
            table: the table's name, with its schema or without.
            columns: the columns to load; empty for all.
            copy_options: COPY's options beside the manifest, the credentials and GZIP.
            prefix: the objects' prefix, ending in a slash, without expressions.
            buffering: up to 128 MiB; `retry_s` is how long Firehose retries COPY, every five minutes.
        """
        buffering = buffering or Buffering(retry_s=3600)
        buffering.check_size(MOST_MIB)
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
        super().__init__(
            scope,
            construct_id,
            name=name,
            source=source,
            bucket=bucket,
            error_prefix=error_prefix,
        )
        stream = firehose.CfnDeliveryStream
        statements = [
            iam.PolicyStatement(
                actions=["secretsmanager:GetSecretValue"], resources=[login.secret_arn]
            ),
            # Firehose writes the objects, and COPY reads them with the same role.
            iam.PolicyStatement(
                actions=["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"],
                resources=[bucket.arn_for_objects(f"{prefix}*")],
            ),
        ]
        self.finish(
            statements,
            redshift_destination_configuration=stream.RedshiftDestinationConfigurationProperty(
                cluster_jdbcurl=jdbc_url,
                copy_command=stream.CopyCommandProperty(
                    data_table_name=table,
                    data_table_columns=", ".join(columns) or None,
                    copy_options=f"{copy_options} gzip",
                ),
                retry_options=stream.RedshiftRetryOptionsProperty(
                    duration_in_seconds=buffering.retry_s
                ),
                role_arn=self.role.role_arn,
                s3_backup_mode="Disabled",
                s3_configuration=stream.S3DestinationConfigurationProperty(
                    bucket_arn=bucket.bucket_arn,
                    role_arn=self.role.role_arn,
                    prefix=prefix,
                    error_output_prefix=error_prefix,
                    compression_format="GZIP",
                    buffering_hints=stream.BufferingHintsProperty(
                        size_in_m_bs=buffering.size_mib, interval_in_seconds=buffering.interval_s
                    ),
                ),
                cloud_watch_logging_options=self.logging,
                secrets_manager_configuration=stream.SecretsManagerConfigurationProperty(
                    enabled=True, secret_arn=login.secret_arn, role_arn=self.role.role_arn
                ),
            ),
        )
