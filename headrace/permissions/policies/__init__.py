"""IAM's policy language: documents, conditions, evaluation, simulation."""
