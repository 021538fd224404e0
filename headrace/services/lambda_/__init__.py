"""Lambda: functions as warm local processes, and the Kinesis trigger."""
