"""Kinesis Data Streams on the shard log."""
