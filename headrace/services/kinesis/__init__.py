"""Kinesis Data Streams on the shard log.

`data_path` puts and reads records, `resharding` splits, merges and trims shards, `subscriptions` and `pushes` are
enhanced fan-out, `queues` and `channels` are what their names say. `actions` has the operations, `backend` holds the
streams, and `api` builds the service.
"""
