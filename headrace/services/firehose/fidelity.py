"""The parameters that Firehose accepts without acting on them, by operation; all others are enforced or refused.

The parameters that destinations other than S3 accept without acting on them, by kind.

Where Firehose takes more than AWS: servers of this machine, by plain HTTP. Refusals are in AWS's words.
"""

from __future__ import annotations

from headrace.aws.protocols.validate import Wording
from headrace.core.ports import FidelityLevel

# AWS takes https alone, and of HTTP endpoints port 443 alone.
_HERE = r"http://([^/@]*@)?(localhost|127\.0\.0\.1|\[::1\])([:/].*)?"

_JDBC = (
    r"jdbc:(redshift|postgresql)://((?!-)[A-Za-z0-9-]{1,63}(?<!-)\.)+(redshift(-serverless)?)\.([a-zA-Z0-9\.\-]+)"
    r":\d{1,5}/[a-zA-Z0-9_$-]+"
)

WORDING = Wording(
    shapes={
        "HttpEndpointUrl": {"pattern": rf"https://.*|{_HERE}", "shown": "https://.*"},
        "ElasticsearchClusterEndpoint": {"pattern": rf"https:.*|{_HERE}", "shown": "https:.*"},
        "AmazonopensearchserviceClusterEndpoint": {
            "pattern": rf"https:.*|{_HERE}",
            "shown": "https:.*",
        },
        "AmazonOpenSearchServerlessCollectionEndpoint": {
            "pattern": rf"https:.*|{_HERE}",
            "shown": "https:.*",
        },
        # An address as clusters show it here.
        "ClusterJDBCURL": {
            "pattern": rf"{_JDBC}|jdbc:(redshift|postgresql)://(localhost|127\.0\.0\.1):\d{{1,5}}/[a-zA-Z0-9_$-]+",
            "shown": _JDBC,
        },
    },
    shows_whole=False,
)


_OF_S3: dict[str, FidelityLevel] = {
    "ProcessingConfiguration.Processors.Lambda.RoleArn": "stored",
}
_DELIMITER: dict[str, FidelityLevel] = {
    # Each record is a separate element of a request.
    "ProcessingConfiguration.Processors.AppendDelimiterToRecord": "stored",
}
_SEARCH: dict[str, FidelityLevel] = {**_OF_S3, **_DELIMITER, "VpcConfiguration": "stored"}

_HTTP: dict[str, FidelityLevel] = {
    **_OF_S3,
    **_DELIMITER,
    "EndpointConfiguration.Name": "stored",
}
_ICEBERG: dict[str, FidelityLevel] = {
    **_OF_S3,
    **_DELIMITER,
    # The backup holds only failed records, which are put together with their delivery.
    "S3Configuration.BufferingHints": "stored",
    # It raises a throughput limit that headrace does not have; records stay in order either way.
    "AppendOnly": "stored",
}
# By kind and configuration member.
STORED: dict[str, dict[str, FidelityLevel]] = {
    "HttpEndpoint": _HTTP,
    # OpenSearch has no document types; only the error output shows the type.
    "Amazonopensearchservice": {**_SEARCH, "TypeName": "stored"},
    "AmazonOpenSearchServerless": _SEARCH,
    # Elasticsearch 6 had document types; headrace's own index, like OpenSearch, has none.
    "Elasticsearch": _SEARCH,
    # COPY reads with the destination's role; the objects are written with the S3 configuration's role.
    "Redshift": _OF_S3,
    # Its own configuration has no RoleARN.
    "Splunk": _OF_S3,
    "Iceberg": _ICEBERG,
}


def list_creation_rows() -> dict[str, FidelityLevel]:
    """Return the fidelity rows of CreateDeliveryStream."""
    return {
        f"{kind}DestinationConfiguration.{name}": level
        for kind, members in STORED.items()
        for name, level in members.items()
    }


def _convert_update_name(kind: str, name: str) -> str:
    if kind == "Iceberg":
        return name
    return name.replace("S3Configuration", "S3Update").replace(
        "BackupConfiguration", "BackupUpdate"
    )


def list_update_rows() -> dict[str, FidelityLevel]:
    """Return the fidelity rows of UpdateDestination, which cannot change the VPC and refuses to change AppendOnly."""
    return {
        f"{kind}DestinationUpdate.{_convert_update_name(kind, name)}": level
        for kind, members in STORED.items()
        for name, level in members.items()
        if name not in ("VpcConfiguration", "AppendOnly")
    }


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
        **list_creation_rows(),
    },
    "UpdateDestination": {**_S3_UPDATE, **list_update_rows()},
    "StartDeliveryStreamEncryption": {"DeliveryStreamEncryptionConfigurationInput": "stored"},
}
