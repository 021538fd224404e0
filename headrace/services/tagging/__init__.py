"""The resource groups tagging API: it reads and writes the tags of all services' resources, and stores none itself."""
