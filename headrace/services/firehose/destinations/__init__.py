"""What Firehose delivers to beside S3: a file, or a package, for each destination."""
