"""The CDK app: what `cdk deploy` sends to AWS, or to the local cloud."""
