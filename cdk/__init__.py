"""The CDK app of the reference pipeline, which deploys to AWS and to the local cloud alike."""
