"""The parameters of destinations other than S3 that are accepted and not acted on, by kind."""

from headrace.core.ports import FidelityLevel

_OF_S3: dict[str, FidelityLevel] = {
    "S3Configuration.EncryptionConfiguration": "stored",
    "S3Configuration.CloudWatchLoggingOptions": "stored",
    # The backup is delivered with the records that it backs up.
    "S3Configuration.BufferingHints": "stored",
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
# By kind, and by member of its configuration.
STORED: dict[str, dict[str, FidelityLevel]] = {
    "HttpEndpoint": _HTTP,
    "Amazonopensearchservice": _SEARCH,
    "AmazonOpenSearchServerless": _SEARCH,
    # Elasticsearch 6 had types of documents; the index of the data directory, as every OpenSearch, has none.
    "Elasticsearch": _SEARCH,
    # Its own configuration has no RoleARN.
    "Splunk": _OF_S3,
}


def of_creation() -> dict[str, FidelityLevel]:
    """Return the rows of CreateDeliveryStream."""
    return {
        f"{kind}DestinationConfiguration.{name}": level
        for kind, members in STORED.items()
        for name, level in members.items()
    }


def of_update() -> dict[str, FidelityLevel]:
    """Return the rows of UpdateDestination. A VPC cannot be changed."""
    return {
        f"{kind}DestinationUpdate.{name.replace('S3Configuration', 'S3Update')}": level
        for kind, members in STORED.items()
        for name, level in members.items()
        if name != "VpcConfiguration"
    }
