"""IAM: limits, policies, boundaries, simulation, on moto's users and roles."""
