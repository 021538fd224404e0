"""A Firehose delivery stream from a Kinesis stream to Parquet in S3, with its Glue table."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from aws_cdk import Aws, Stack
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk.parts.delivery_config import DeliveryConfig
from cdk.parts.delivery_log import DeliveryLog
from cdk.parts.delivery_resources import (
    Stream,
    create_delivery,
    create_role,
    may_log,
    may_write,
)

FORMATS = "org.apache.hadoop.hive.ql.io.parquet"


class ParquetDelivery(Construct):
    """The delivery stream of `config`, from `source` into `bucket`; a record that fits no row goes to the error prefix.

    Attributes:
        delivery: the delivery stream.
        database, table: the catalogue's entries.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: DeliveryConfig,
        source: kinesis.IStream,
        bucket: s3.IBucket,
    ) -> None:
        super().__init__(scope, construct_id)
        self._config, self._bucket = config, bucket
        log = DeliveryLog(self, config.name)
        self.database = glue.CfnDatabase(
            self,
            "Database",
            catalog_id=Aws.ACCOUNT_ID,
            database_input=glue.CfnDatabase.DatabaseInputProperty(name=config.database),
        )
        self.table = self._table()
        self.table.add_resource_dependency(self.database)
        options, role = config.options(source, bucket), create_role(self)
        self.delivery = create_delivery(
            self,
            options,
            role,
            [
                may_write(bucket, config.prefix, config.error_prefix),
                self._may_read_table(),
                may_log(log.group_arn),
            ],
            extended_s3_destination_configuration=Stream.ExtendedS3DestinationConfigurationProperty(
                bucket_arn=bucket.bucket_arn,
                role_arn=role.role_arn,
                prefix=config.prefix,
                error_output_prefix=config.error_prefix,
                buffering_hints=options.buffering(Stream.BufferingHintsProperty),
                # Parquet compresses its content; the object itself must not be compressed again.
                compression_format="UNCOMPRESSED",
                cloud_watch_logging_options=log.options,
                data_format_conversion_configuration=self._conversion(role),
            ),
        )
        # Firehose checks at creation whether it may read the table.
        self.delivery.node.add_dependency(self.table)

    def _table(self) -> glue.CfnTable:
        config = self._config
        location = f"s3://{self._bucket.bucket_name}/{config.table_location}"
        partition = config.partition_name
        return glue.CfnTable(
            self,
            "Table",
            catalog_id=Aws.ACCOUNT_ID,
            database_name=config.database,
            table_input=glue.CfnTable.TableInputProperty(
                name=config.table,
                table_type="EXTERNAL_TABLE",
                parameters={
                    "classification": "parquet",
                    "EXTERNAL": "TRUE",
                    "projection.enabled": "true",
                    "storage.location.template": f"{location}{partition}=${{{partition}}}/",
                    **{f"projection.{partition}.{k}": v for k, v in config.projection.items()},
                },
                partition_keys=[glue.CfnTable.ColumnProperty(name=partition, type="string")],
                storage_descriptor=glue.CfnTable.StorageDescriptorProperty(
                    columns=[
                        glue.CfnTable.ColumnProperty(name=c.name, type=c.type, comment=c.comment)
                        for c in config.columns
                    ],
                    location=location,
                    input_format=f"{FORMATS}.MapredParquetInputFormat",
                    output_format=f"{FORMATS}.MapredParquetOutputFormat",
                    serde_info=glue.CfnTable.SerdeInfoProperty(
                        serialization_library=f"{FORMATS}.serde.ParquetHiveSerDe"
                    ),
                ),
            ),
        )

    def _may_read_table(self) -> iam.PolicyStatement:
        stack, config = Stack.of(self), self._config
        return iam.PolicyStatement(
            actions=["glue:GetTable", "glue:GetTableVersion", "glue:GetTableVersions"],
            resources=[
                stack.format_arn(service="glue", resource=resource)
                for resource in (
                    "catalog",
                    f"database/{config.database}",
                    f"table/{config.database}/{config.table}",
                )
            ],
        )

    def _conversion(self, role: iam.Role) -> Stream.DataFormatConversionConfigurationProperty:
        config = self._config
        return Stream.DataFormatConversionConfigurationProperty(
            enabled=True,
            input_format_configuration=Stream.InputFormatConfigurationProperty(
                deserializer=Stream.DeserializerProperty(
                    open_x_json_ser_de=Stream.OpenXJsonSerDeProperty()
                )
            ),
            output_format_configuration=Stream.OutputFormatConfigurationProperty(
                serializer=Stream.SerializerProperty(
                    parquet_ser_de=Stream.ParquetSerDeProperty(
                        compression=config.parquet_compression
                    )
                )
            ),
            schema_configuration=Stream.SchemaConfigurationProperty(
                role_arn=role.role_arn,
                catalog_id=Aws.ACCOUNT_ID,
                region=Aws.REGION,
                database_name=config.database,
                table_name=config.table,
                version_id="LATEST",
            ),
        )
