"""API Gateway: REST and HTTP APIs, on moto's control plane."""
