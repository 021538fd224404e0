"""S3 over plain files."""
