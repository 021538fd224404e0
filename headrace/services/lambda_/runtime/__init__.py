"""Function processes: starts them in isolation, serves them AWS's Runtime API, and keeps warm ones in pools."""
