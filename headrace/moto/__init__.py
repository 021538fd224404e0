"""moto as an engine: runs a request in process, within bounds, and stores its state."""
