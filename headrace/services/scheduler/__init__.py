"""EventBridge Scheduler's schedules."""
