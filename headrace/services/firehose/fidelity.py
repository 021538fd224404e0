"""The parameters that Firehose accepts without acting on them, by operation; all others are enforced or refused."""

from headrace.core.ports import FidelityLevel

_DESTINATION: dict[str, FidelityLevel] = {
    "RoleARN": "stored",
    "EncryptionConfiguration": "stored",
    "S3BackupConfiguration": "ignored",
    "DataFormatConversionConfiguration.SchemaConfiguration.RoleARN": "stored",
    "DataFormatConversionConfiguration.OutputFormatConfiguration.Serializer.ParquetSerDe.BlockSizeBytes": "stored",
    "DataFormatConversionConfiguration.OutputFormatConfiguration.Serializer.ParquetSerDe.MaxPaddingBytes": "stored",
    # Records are transformed when their buffer is delivered, whatever this interval.
    "ProcessingConfiguration.Processors.Lambda.BufferIntervalInSeconds": "stored",
    "ProcessingConfiguration.Processors.Lambda.RoleArn": "stored",
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    # There is nothing here that a deletion would have to be forced against.
    "DeleteDeliveryStream": {"AllowForceDelete": "ignored"},
    # There is one destination, on AWS too.
    "DescribeDeliveryStream": {"Limit": "ignored", "ExclusiveStartDestinationId": "ignored"},
    "CreateDeliveryStream": {
        "DeliveryStreamEncryptionConfigurationInput": "stored",
        "KinesisStreamSourceConfiguration.RoleARN": "stored",
        "DirectPutSourceConfiguration": "stored",
        **{
            f"ExtendedS3DestinationConfiguration.{name}": _DESTINATION[name]
            for name in _DESTINATION
        },
    },
    "UpdateDestination": {
        f"ExtendedS3DestinationUpdate.{name.replace('BackupConfiguration', 'BackupUpdate')}": level
        for name, level in _DESTINATION.items()
    },
    "StartDeliveryStreamEncryption": {"DeliveryStreamEncryptionConfigurationInput": "stored"},
}
