"""IoT: rules and their SQL."""
