"""Creates, updates and deletes the resources of a stack."""
