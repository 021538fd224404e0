"""Builds and connects the parts of a cloud; `headrace.cloud` starts and stops them. Only it knows all services."""
