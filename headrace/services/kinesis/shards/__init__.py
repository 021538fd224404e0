"""The shards of a stream: splits and merges, the growth of on-demand streams, and retention."""
