"""Lambda: functions that run in warm local processes, and event source mappings from Kinesis, DynamoDB and SQS."""
