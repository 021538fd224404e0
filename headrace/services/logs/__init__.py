"""CloudWatch Logs: retention, bounds, subscriptions, on moto's groups."""
