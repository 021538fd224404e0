"""The owner that every bucket and object has, and the owner's grant."""

from headrace.aws.shapes.s3 import Grant, Owner

OWNER_ID = "0" * 64
OWNER: Owner = {"DisplayName": "headrace", "ID": OWNER_ID}
FULL_CONTROL: list[Grant] = [
    {
        "Grantee": {"Type": "CanonicalUser", "DisplayName": "headrace", "ID": OWNER_ID},
        "Permission": "FULL_CONTROL",
    }
]
