"""EMR: clusters whose steps are real processes on this machine."""
