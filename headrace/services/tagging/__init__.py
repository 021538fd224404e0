"""The resource groups tagging API: tags of resources of all services, read from and written to those services."""
