"""Cognito: the Lambda triggers of user pools, on moto's control plane."""
