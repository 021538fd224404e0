"""Quotas of S3.

Sources (documented, read 2026): docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html (multipart),
object-keys.html, UsingMetadata.html, object-tagging.html, and the API reference of each listing.
"""

KEY_BYTES = 1024
PUT_BYTES = 5 * 1024**3
# How much of an object a service of this cloud may have in memory: headrace's own limit. Clients get slices of files.
HELD_BYTES = 64 * 1024**2
METADATA_BYTES = 2048
TAGS_PER_OBJECT = 10
TAGS_PER_BUCKET = 50
TAG_KEY_CHARS = 128
TAG_VALUE_CHARS = 256
MIN_PART_BYTES = 5 * 1024**2
PART_NUMBER = 10_000
LIST_KEYS = 1000
LIST_PARTS = 1000
LIST_UPLOADS = 1000
LIST_BUCKETS = 10_000
DELETE_KEYS = 1000
# The rules in a bucket's CORS configuration. Source: API_PutBucketCors.
CORS_RULES = 100
# The body of a document, such as a lifecycle configuration. Assumed: S3 does not document it.
XML_BYTES = 2 * 1024**2
# The fields before the file in a browser's form, their names too (documented: RESTObjectPOST).
POST_FIELDS_BYTES = 20 * 1024
# How many configurations of each kind with an Id a bucket may have (documented: TooManyConfigurations), and how many of
# them a page has (documented: API_List...).
LISTED_CONFIGURATIONS = 1000
LISTED_CONFIGURATIONS_PAGE = 100
