"""EventBridge: buses, rules, patterns and targets, on moto's control plane."""
