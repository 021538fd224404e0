"""S3: each object is a plain file in its bucket's folder."""
