"""LocalStack on this machine without Docker: installed, started and stopped, with the plug-ins that it lacks."""
