"""What Firehose accepts without acting on it. Operation -> parameter -> level; the rest is enforced or refused."""

from headrace.core.ports import FidelityLevel

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "CreateDeliveryStream": {
        "DeliveryStreamEncryptionConfigurationInput": "stored",
        "ExtendedS3DestinationConfiguration.RoleARN": "stored",
        "ExtendedS3DestinationConfiguration.EncryptionConfiguration": "stored",
        "ExtendedS3DestinationConfiguration.DataFormatConversionConfiguration.SchemaConfiguration.RoleARN": "stored",
        "KinesisStreamSourceConfiguration.RoleARN": "stored",
    },
    "StartDeliveryStreamEncryption": {"DeliveryStreamEncryptionConfigurationInput": "stored"},
}
