"""Enhanced fan-out: registered consumers, their subscriptions to shards, and the events that are pushed to them."""
