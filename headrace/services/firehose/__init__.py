"""Amazon Data Firehose: buffered delivery from streams and direct puts to S3."""
