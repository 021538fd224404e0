"""Quotas and defaults of Redshift Serverless.

Source: docs.aws.amazon.com/redshift/latest/mgmt/amazon-redshift-limits.html and the model's texts (documented).
"""

PORT = 5439
BASE_CAPACITY = 128
PAGE = 100
DATABASE = "dev"
ADMIN = "admin"
