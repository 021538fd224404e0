"""The codes and sentences that Firehose logs when a COPY fails.

Source: docs.aws.amazon.com/firehose/latest/dev/monitoring-with-cloudwatch-logs.html, "Amazon Redshift Data Delivery
Errors" (documented codes; the sentences say the same in other words, and Redshift's own sentence follows).
"""

from __future__ import annotations

from headrace.core.ports.warehouses import WarehouseError
from headrace.services.firehose.destinations.outcome import DeliveryRefusal

_WHY = {
    "TableNotFound": "The table to load into does not exist. Firehose makes no tables.",
    "SyntaxError": "COPY has a syntax error.",
    "AuthenticationFailed": "The user name and the password are not accepted.",
    "AccessDenied": "Firehose may not assume the role.",
    "S3BucketAccessDenied": "The role may not read the S3 bucket for COPY.",
    "DataLoadFailed": "The data could not be loaded. See STL_LOAD_ERRORS.",
    "ColumnNotFound": "COPY names a column that the table does not have.",
    "DatabaseNotFound": "The database of the JDBC URL does not exist.",
    "IncorrectCopyOptions": "COPY has options that exclude one another, or one of them twice.",
    "MissingColumn": "A column that is NOT NULL and has no default is not in the column list.",
    "ConnectionFailed": "There is no connection to the cluster.",
    "ColumnMismatch": "The jsonpaths and the columns differ in number.",
    "IncorrectOrMissingRegion": "COPY looks for the bucket in another region.",
    "IncorrectJsonPathsFile": "The jsonpaths file is not in a form that is supported.",
    "MissingS3File": "An S3 object that COPY needs is not there any more.",
    "InsufficientPrivilege": "The user may not load data into the table.",
    "DiskFull": "The disk is full.",
}


def build_refusal(error: WarehouseError) -> DeliveryRefusal:
    """Return a failure with Firehose's code and sentence; every failure is tried again."""
    # A statement that fails on the table's data, for example on a check constraint, is a failed load.
    kind = error.kind if error.kind in _WHY else "DataLoadFailed"
    return DeliveryRefusal(f"Redshift.{kind}", f"{_WHY[kind]} {error}")
