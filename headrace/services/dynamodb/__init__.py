"""DynamoDB: checks, items, streams, on moto's tables."""
