"""Event source mappings: they invoke functions with the records of a stream or the messages of a queue."""
