"""Quotas of Amazon Data Firehose.

Source: docs.aws.amazon.com/firehose/latest/dev/limits.html (documented, read 2026).
"""

RECORD_BYTES = 1000 * 1024
BATCH_BYTES = 4 * 1024 * 1024
BATCH_RECORDS = 500
MIN_BUFFER_MIB = 1
MAX_BUFFER_MIB = 128
MAX_INTERVAL_S = 900
DEFAULT_BUFFER_MIB = 5
DEFAULT_INTERVAL_S = 300
CONVERSION_MIN_BUFFER_MIB = 64
CONVERSION_DEFAULT_BUFFER_MIB = 128
LIST_DEFAULT = 10
TAGS_PER_STREAM = 50
# Lambda accepts 6 MB in a synchronous invocation; the event around the records needs part of it.
INVOCATION_BYTES = 5_900_000
LAMBDA_RETRIES = 3
LAMBDA_BUFFER_MIB = 1.0
LAMBDA_MIN_BUFFER_MIB = 0.2
LAMBDA_MAX_BUFFER_MIB = 3.0
# A prefix after evaluation.
EVALUATED_PREFIX_CHARS = 512
# The extension of an object's key, by CompressionFormat (observed by others on AWS, 2026).
EXTENSIONS = {
    "UNCOMPRESSED": "",
    "GZIP": ".gz",
    "ZIP": ".zip",
    "Snappy": ".snappy",
    "HADOOP_SNAPPY": ".snappy",
}
RETRY_DEFAULT_S = 300
PARTITIONED_MIN_BUFFER_MIB = 64
PARTITIONED_MIN_INTERVAL_S = 60
ACTIVE_PARTITIONS = 500
MOST_PROCESSORS = 5
LAMBDA_INTERVAL_S = 60
LAMBDA_MOST_INTERVAL_S = 900
LAMBDA_MOST_RETRIES = 300
# Lambda's answer to a synchronous invocation.
ANSWER_BYTES = 6 * 1024 * 1024
