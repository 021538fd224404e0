"""SQS: checks, permissions and messages, on moto's queues."""
