"""A Firehose delivery stream from a Kinesis stream to an Iceberg table of the Glue catalogue, with the table."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Aws, Stack, Token
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk.parts.checks import check_name
from cdk.parts.delivery_config import GLUE_NAME_PATTERN, Column
from cdk.parts.delivery_options import DeliveryOptions
from cdk.parts.delivery_resources import Stream
from cdk.parts.stream_delivery import StreamDelivery

# Source: API_IcebergDestinationConfiguration, and API_BufferingHints.
# Hive types that Iceberg does not have.
_NO_TYPES = ("tinyint", "smallint")


class IcebergDelivery(StreamDelivery):
    """Inserts the records of `source`, each a JSON object, into a table, or updates and deletes rows with them.

    Attributes:
        database, table: the catalogue's entries.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        options: DeliveryOptions,
        *,
        database: str,
        table: str,
        location: str,
        columns: Sequence[Column],
        unique_keys: Sequence[str] = (),
        operation: str = "",
    ) -> None:
        """Create it. Raises ValueError for arguments that AWS would refuse.

        Args:
            scope: the parent construct.
            construct_id: its id in the parent.
            options: what all deliveries have; the bucket also holds the table's files; the buffer has up to 128 MiB.
            database: the name of the Glue database to create.
            table: the name of the Glue table to create.
            location: the part of the keys that all files of the table share, ending in a slash.
            columns: the table's columns.
            unique_keys: the columns that identify a row.
            operation: a JQ expression that returns `insert`, `update` or `delete` for a record, such as `.op`; empty to
                insert all records.
        """
        check_name("A Glue database's name", database, GLUE_NAME_PATTERN)
        check_name("A Glue table's name", table, GLUE_NAME_PATTERN)
        _check(location, columns, unique_keys, operation)
        super().__init__(scope, construct_id, options)
        self.database = glue.CfnDatabase(
            self,
            "Database",
            catalog_id=Aws.ACCOUNT_ID,
            database_input=glue.CfnDatabase.DatabaseInputProperty(name=database),
        )
        self.table = self._table(database, table, location, columns)
        self.table.add_resource_dependency(self.database)
        configured = Stream.DestinationTableConfigurationProperty(
            destination_database_name=database,
            destination_table_name=table,
            unique_keys=list(unique_keys) or None,
        )
        catalog = Stack.of(self).format_arn(service="glue", resource="catalog")
        self.finish(
            self._needs(database, table, options.bucket.arn_for_objects(f"{location}*")),
            iceberg_destination_configuration=Stream.IcebergDestinationConfigurationProperty(
                role_arn=self.role.role_arn,
                catalog_configuration=Stream.CatalogConfigurationProperty(catalog_arn=catalog),
                destination_table_configuration_list=[configured],
                append_only=not operation,
                processing_configuration=_routing(operation) if operation else None,
                **self.backup(
                    "FailedDataOnly", Stream.BufferingHintsProperty, Stream.RetryOptionsProperty
                ),
            ),
        )
        # Firehose checks at creation whether it may read the table.
        self.delivery.node.add_dependency(self.table)

    def _table(
        self, database: str, table: str, location: str, columns: Sequence[Column]
    ) -> glue.CfnTable:
        cfn_table = glue.CfnTable
        return cfn_table(
            self,
            "Table",
            catalog_id=Aws.ACCOUNT_ID,
            database_name=database,
            open_table_format_input=cfn_table.OpenTableFormatInputProperty(
                iceberg_input=cfn_table.IcebergInputProperty(
                    metadata_operation="CREATE", version="2"
                )
            ),
            table_input=cfn_table.TableInputProperty(
                name=table,
                table_type="EXTERNAL_TABLE",
                storage_descriptor=cfn_table.StorageDescriptorProperty(
                    location=f"s3://{self.options.bucket.bucket_name}/{location}".removesuffix("/"),
                    columns=[
                        cfn_table.ColumnProperty(name=c.name, type=c.type, comment=c.comment)
                        for c in columns
                    ],
                ),
            ),
        )

    def _needs(self, database: str, table: str, files: str) -> list[iam.PolicyStatement]:
        """Return the role's permissions. Source: "Grant Firehose access to an Apache Iceberg Tables destination"."""
        stack = Stack.of(self)
        return [
            iam.PolicyStatement(
                actions=["glue:GetTable", "glue:GetDatabase", "glue:UpdateTable"],
                resources=[
                    stack.format_arn(service="glue", resource=resource)
                    for resource in (
                        "catalog",
                        f"database/{database}",
                        f"table/{database}/{table}",
                    )
                ],
            ),
            iam.PolicyStatement(
                actions=[
                    "s3:AbortMultipartUpload",
                    "s3:DeleteObject",
                    "s3:GetObject",
                    "s3:PutObject",
                ],
                resources=[files],
            ),
        ]


def _routing(operation: str) -> Stream.ProcessingConfigurationProperty:
    parameters = {
        "JsonParsingEngine": "JQ-1.6",
        "MetadataExtractionQuery": f"{{operation:({operation})}}",
    }
    return Stream.ProcessingConfigurationProperty(
        enabled=True,
        processors=[
            Stream.ProcessorProperty(
                type="MetadataExtraction",
                parameters=[
                    Stream.ProcessorParameterProperty(parameter_name=name, parameter_value=value)
                    for name, value in parameters.items()
                ],
            )
        ],
    )


def _check(
    location: str, columns: Sequence[Column], unique_keys: Sequence[str], operation: str
) -> None:
    if not Token.is_unresolved(location) and (not location.endswith("/") or location == "/"):
        raise ValueError(f"A table's location must end in a slash, and {location!r} does not.")
    if not columns:
        raise ValueError("An Iceberg table must have a column.")
    names = [column.name for column in columns]
    for column in columns:
        if column.type in _NO_TYPES:
            raise ValueError(
                f"Column {column.name} has a type that Iceberg does not have: {column.type}."
            )
        if names.count(column.name) > 1:
            raise ValueError(f"Column {column.name} occurs twice.")
    for key in unique_keys:
        if key not in names:
            raise ValueError(f"Unique key {key} is not a column of the table.")
    if operation and not unique_keys:
        raise ValueError("Updates and deletions need unique keys.")
