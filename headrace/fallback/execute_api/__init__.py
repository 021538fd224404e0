"""API Gateway's data plane: requests to the addresses of REST and HTTP APIs, which moto only keeps."""
