"""Kinesis Data Streams on the shard log.

It has three floors: `data_path` (putting and reading records), `shards` (splitting, merging, growth, retention) and
`consumers` (enhanced fan-out). `backend` holds the streams, `api` builds everything.
"""
