"""Function processes: their environment, AWS's Runtime API on a socket, and pools of warm ones."""
