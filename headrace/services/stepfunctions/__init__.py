"""Step Functions: state machines and their executions."""
