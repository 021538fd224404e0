"""Cloud Control: creates, changes and deletes single resources with CloudFormation's resource types."""
