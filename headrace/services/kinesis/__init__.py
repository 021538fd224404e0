"""Kinesis Data Streams on the shard log.

`data_path` puts and reads records, `shards` splits, merges and trims shards, and `consumers` is enhanced fan-out.
`actions` has one module for each operation, `backend` holds the streams, and `api` builds the service.
"""
