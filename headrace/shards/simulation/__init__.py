"""What the policy would do with a load over days, beside doing nothing, UpdateShardCount and on-demand. Needs numpy."""
