"""The parameters of destinations other than S3 that are accepted and not acted on, by kind."""

from headrace.core.ports import FidelityLevel

_OF_S3: dict[str, FidelityLevel] = {
    "ProcessingConfiguration.Processors.Lambda.RoleArn": "stored",
}
_DELIMITER: dict[str, FidelityLevel] = {
    # Each record has a place of its own in a request.
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
    # Nothing but failed records goes there, with the delivery that they come from.
    "S3Configuration.BufferingHints": "stored",
    # No limit of throughput is enforced that it would lift; records are kept in order either way.
    "AppendOnly": "stored",
}
# By kind, and by member of its configuration.
STORED: dict[str, dict[str, FidelityLevel]] = {
    "HttpEndpoint": _HTTP,
    "Amazonopensearchservice": _SEARCH,
    "AmazonOpenSearchServerless": _SEARCH,
    # Elasticsearch 6 had types of documents; the index of the data directory, as every OpenSearch, has none.
    "Elasticsearch": _SEARCH,
    # Firehose's role reads for COPY; who writes the objects is the S3 configuration's.
    "Redshift": _OF_S3,
    # Its own configuration has no RoleARN.
    "Splunk": _OF_S3,
    "Iceberg": _ICEBERG,
}


def of_creation() -> dict[str, FidelityLevel]:
    """Return the rows of CreateDeliveryStream."""
    return {
        f"{kind}DestinationConfiguration.{name}": level
        for kind, members in STORED.items()
        for name, level in members.items()
    }


def _in_update(kind: str, name: str) -> str:
    if kind == "Iceberg":
        return name
    return name.replace("S3Configuration", "S3Update").replace(
        "BackupConfiguration", "BackupUpdate"
    )


def of_update() -> dict[str, FidelityLevel]:
    """Return the rows of UpdateDestination. A VPC cannot be changed; a change of AppendOnly is refused."""
    return {
        f"{kind}DestinationUpdate.{_in_update(kind, name)}": level
        for kind, members in STORED.items()
        for name, level in members.items()
        if name not in ("VpcConfiguration", "AppendOnly")
    }
