"""Event-source mappings: from a shard's records to invocations, with AWS's rules for failures."""
