"""The owner that every bucket and object has, and the owner's grant: S3 has no access control here."""

from headrace.aws.shapes.s3 import Grant, Owner

OWNER: Owner = {"DisplayName": "headrace", "ID": "0" * 64}
FULL_CONTROL: list[Grant] = [
    {
        "Grantee": {"Type": "CanonicalUser", "DisplayName": "headrace", "ID": "0" * 64},
        "Permission": "FULL_CONTROL",
    }
]
