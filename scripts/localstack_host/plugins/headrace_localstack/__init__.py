"""Plug-ins for LocalStack, imported by LocalStack's own interpreter: functions as processes, and services on moto."""
