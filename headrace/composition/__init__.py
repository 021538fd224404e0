"""Builds the parts of a cloud and wires them; `headrace.cloud` starts and stops them. It alone knows all services."""
