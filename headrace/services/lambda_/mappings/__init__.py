"""Event source mappings: functions invoked with the records of a stream or the messages of a queue."""
