"""Managed Flink's applications, on moto's control plane."""
