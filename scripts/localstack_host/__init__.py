"""Installs, starts and stops LocalStack without Docker, with plug-ins for what its open edition lacks."""
