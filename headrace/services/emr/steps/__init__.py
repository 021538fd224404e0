"""One step of a cluster: its command, its process, its logs."""
