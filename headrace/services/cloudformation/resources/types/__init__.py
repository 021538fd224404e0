"""The resource types, a file for each AWS namespace."""
