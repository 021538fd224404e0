"""The parameters that Firehose accepts without acting on them, by operation; all others are enforced or refused."""

from headrace.core.ports import FidelityLevel
from headrace.services.firehose.destinations import fidelity as destinations

_DESTINATION: dict[str, FidelityLevel] = {
    "DataFormatConversionConfiguration.OutputFormatConfiguration.Serializer.OrcSerDe.BlockSizeBytes": "stored",
    "DataFormatConversionConfiguration.OutputFormatConfiguration.Serializer.ParquetSerDe.BlockSizeBytes": "stored",
    "DataFormatConversionConfiguration.OutputFormatConfiguration.Serializer.ParquetSerDe.MaxPaddingBytes": "stored",
    # The processor always appends a newline and ignores its parameter, on AWS too.
    "ProcessingConfiguration.Processors.AppendDelimiterToRecord": "stored",
    "ProcessingConfiguration.Processors.Lambda.RoleArn": "stored",
}

_S3_UPDATE: dict[str, FidelityLevel] = {
    f"ExtendedS3DestinationUpdate.{name.replace('BackupConfiguration', 'BackupUpdate')}": level
    for name, level in _DESTINATION.items()
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    # No deletion needs to be forced.
    "DeleteDeliveryStream": {"AllowForceDelete": "ignored"},
    # A delivery stream has one destination, on AWS too.
    "DescribeDeliveryStream": {"Limit": "ignored", "ExclusiveStartDestinationId": "ignored"},
    "CreateDeliveryStream": {
        "DeliveryStreamEncryptionConfigurationInput": "stored",
        "DirectPutSourceConfiguration": "stored",
        **{
            f"ExtendedS3DestinationConfiguration.{name}": _DESTINATION[name]
            for name in _DESTINATION
        },
        **destinations.list_creation_rows(),
    },
    "UpdateDestination": {**_S3_UPDATE, **destinations.list_update_rows()},
    "StartDeliveryStreamEncryption": {"DeliveryStreamEncryptionConfigurationInput": "stored"},
}
