"""CloudWatch: alarms that act, on moto's metrics."""
