"""EventBridge Pipes: sources, filters, enrichment, targets."""
