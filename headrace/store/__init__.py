"""Stores what must last: the shard log and the state database. It knows bytes and times, and no AWS."""
