"""Leases: which worker reads which shard, and up to where it was processed, in the KCL's format."""
