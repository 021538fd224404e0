"""Quotas and defaults of Redshift Serverless.

Source: docs.aws.amazon.com/redshift/latest/mgmt/amazon-redshift-limits.html and the model's texts (documented).
"""

PORT = 5439
BASE_CAPACITY = 128
PAGE = 100
DATABASE = "dev"
ADMIN = "admin"
# durationSeconds of GetCredentials (API_GetCredentials, documented).
LOGIN_SECONDS = 900
MOST_LOGIN_SECONDS = 3600
# docs.aws.amazon.com/redshift/latest/mgmt/amazon-redshift-tagging.html (documented).
TAGS = 50
