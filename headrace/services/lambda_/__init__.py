"""Lambda: functions as warm local processes, and event source mappings from Kinesis and SQS."""
