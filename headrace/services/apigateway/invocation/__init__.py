"""API Gateway's data plane: answers requests to REST and HTTP APIs, of which moto only stores the definitions."""
