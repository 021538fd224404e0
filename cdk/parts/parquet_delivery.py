"""A Firehose delivery stream from a Kinesis stream to Parquet in S3, with its Glue table."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from aws_cdk import Aws, Stack
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kinesisfirehose as firehose
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk.parts.delivery_config import DeliveryConfig
from cdk.parts.delivery_log import DeliveryLog

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
        self._config, self._source, self._bucket = config, source, bucket
        self._log = DeliveryLog(self, config.name)
        self.database = glue.CfnDatabase(
            self,
            "Database",
            catalog_id=Aws.ACCOUNT_ID,
            database_input=glue.CfnDatabase.DatabaseInputProperty(name=config.database),
        )
        self.table = self._table()
        self.table.add_resource_dependency(self.database)
        role, policy = self._role()
        self.delivery = self._delivery(role)
        # Firehose checks at creation whether it may read the table and the stream.
        self.delivery.node.add_dependency(policy, self.table)

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

    def _role(self) -> tuple[iam.Role, iam.Policy]:
        stack = Stack.of(self)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("firehose.amazonaws.com").with_conditions(
                {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
            ),
        )
        config = self._config
        policy = iam.Policy(
            self,
            "Policy",
            roles=[role],
            statements=[
                iam.PolicyStatement(
                    actions=[
                        "kinesis:DescribeStream",
                        "kinesis:GetShardIterator",
                        "kinesis:GetRecords",
                        "kinesis:ListShards",
                    ],
                    resources=[self._source.stream_arn],
                ),
                iam.PolicyStatement(
                    actions=[
                        "s3:GetBucketLocation",
                        "s3:ListBucket",
                        "s3:ListBucketMultipartUploads",
                    ],
                    resources=[self._bucket.bucket_arn],
                ),
                iam.PolicyStatement(
                    actions=["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"],
                    resources=[
                        self._bucket.arn_for_objects(f"{prefix.partition('!')[0]}*")
                        for prefix in (config.prefix, config.error_prefix)
                    ],
                ),
                iam.PolicyStatement(
                    actions=["glue:GetTable", "glue:GetTableVersion", "glue:GetTableVersions"],
                    resources=[
                        stack.format_arn(service="glue", resource=resource)
                        for resource in (
                            "catalog",
                            f"database/{config.database}",
                            f"table/{config.database}/{config.table}",
                        )
                    ],
                ),
                iam.PolicyStatement(actions=["logs:PutLogEvents"], resources=[self._log.group_arn]),
            ],
        )
        return role, policy

    def _delivery(self, role: iam.Role) -> firehose.CfnDeliveryStream:
        config, stream = self._config, firehose.CfnDeliveryStream
        return stream(
            self,
            "Delivery",
            delivery_stream_name=config.name,
            delivery_stream_type="KinesisStreamAsSource",
            kinesis_stream_source_configuration=stream.KinesisStreamSourceConfigurationProperty(
                kinesis_stream_arn=self._source.stream_arn, role_arn=role.role_arn
            ),
            extended_s3_destination_configuration=stream.ExtendedS3DestinationConfigurationProperty(
                bucket_arn=self._bucket.bucket_arn,
                role_arn=role.role_arn,
                prefix=config.prefix,
                error_output_prefix=config.error_prefix,
                buffering_hints=stream.BufferingHintsProperty(
                    size_in_m_bs=config.size_mib, interval_in_seconds=config.interval_s
                ),
                # Parquet compresses its content; the object itself must not be compressed again.
                compression_format="UNCOMPRESSED",
                cloud_watch_logging_options=self._log.options,
                data_format_conversion_configuration=(
                    stream.DataFormatConversionConfigurationProperty(
                        enabled=True,
                        input_format_configuration=stream.InputFormatConfigurationProperty(
                            deserializer=stream.DeserializerProperty(
                                open_x_json_ser_de=stream.OpenXJsonSerDeProperty()
                            )
                        ),
                        output_format_configuration=stream.OutputFormatConfigurationProperty(
                            serializer=stream.SerializerProperty(
                                parquet_ser_de=stream.ParquetSerDeProperty(
                                    compression=config.parquet_compression
                                )
                            )
                        ),
                        schema_configuration=stream.SchemaConfigurationProperty(
                            role_arn=role.role_arn,
                            catalog_id=Aws.ACCOUNT_ID,
                            region=Aws.REGION,
                            database_name=config.database,
                            table_name=config.table,
                            version_id="LATEST",
                        ),
                    )
                ),
            ),
        )
