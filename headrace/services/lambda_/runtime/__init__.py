"""Function processes: starts them in isolation, and serves them AWS's Runtime API."""
