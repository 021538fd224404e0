"""CloudFormation: a template becomes API calls of the other services, and a failure is rolled back."""
