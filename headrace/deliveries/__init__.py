"""What one service sends to another: the outbox, targets, HTTP calls, schedules."""
