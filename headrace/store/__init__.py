"""What lasts: the shard log and the state database. Bytes, sequence numbers, milliseconds; no AWS."""
