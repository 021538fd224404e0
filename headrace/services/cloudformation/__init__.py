"""CloudFormation: templates to API calls through the gateway, with real rollback."""
