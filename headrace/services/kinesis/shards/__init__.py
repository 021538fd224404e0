"""The shards of a stream: splitting and merging them, growth with traffic, and retention."""
