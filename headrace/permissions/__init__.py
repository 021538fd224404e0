"""IAM's policy language: checks policies, finds the permissions that a request needs, and decides as AWS does."""
