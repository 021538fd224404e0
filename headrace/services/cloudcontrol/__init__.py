"""Cloud Control: single resources, made and changed by the resource types that stacks have."""
