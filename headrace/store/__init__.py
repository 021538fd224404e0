"""Durable storage: the logs of shards and the state database. It knows bytes and times, and no AWS."""
