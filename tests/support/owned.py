"""The services that headrace owns, by botocore's names. tests/unit/aws/test_services.py holds it against the cloud."""

OWNED = (
    "cloudcontrol",
    "cloudformation",
    "emr",
    "emr-serverless",
    "firehose",
    "kinesis",
    "lambda",
    "redshift-data",
    "redshift-serverless",
    "resourcegroupstaggingapi",
    "s3",
)
