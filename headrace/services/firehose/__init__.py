"""Amazon Data Firehose: delivers records from streams and direct puts to S3 and other destinations, in buffers."""
