"""Enhanced fan-out: registered consumers, their subscriptions to shards, and pushing events to them."""
