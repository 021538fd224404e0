"""S3's operations. An operation that is not listed answers that headrace does not implement it."""

import functools
from collections.abc import Mapping
from typing import Any

from headrace.aws.calls.operation import Action, Call, operation_name
from headrace.services.s3.actions.buckets import (
    LISTED,
    create_bucket,
    delete_bucket,
    get_bucket_acl,
    get_bucket_location,
    head_bucket,
    list_buckets,
    put_bucket_acl,
)
from headrace.services.s3.actions.configurations import CONFIGURATIONS
from headrace.services.s3.actions.copy_object import copy_object
from headrace.services.s3.actions.listings import (
    list_object_versions,
    list_objects,
    list_objects_v2,
)
from headrace.services.s3.actions.multipart import (
    abort_multipart_upload,
    complete_multipart_upload,
    create_multipart_upload,
    list_multipart_uploads,
    list_parts,
    upload_part,
    upload_part_copy,
)
from headrace.services.s3.actions.objects import (
    delete_object,
    delete_object_tagging,
    delete_objects,
    get_object,
    get_object_acl,
    get_object_attributes,
    get_object_legal_hold,
    get_object_retention,
    get_object_tagging,
    head_object,
    put_object,
    put_object_acl,
    put_object_legal_hold,
    put_object_retention,
    put_object_tagging,
    restore_object,
)
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import not_allowed
from headrace.services.s3.routing import TABLE_STORAGE

# What AWS allows with the files of S3 Tables' tables (documented: s3-tables-setting-up, GetTableData and PutTableData;
# assumed for the two about the bucket); CreateBucket has its own refusal.
_OF_TABLES = frozenset(
    {
        "AbortMultipartUpload",
        "CompleteMultipartUpload",
        "CreateBucket",
        "CreateMultipartUpload",
        "GetBucketLocation",
        "GetObject",
        "HeadBucket",
        "HeadObject",
        "ListParts",
        "PutObject",
        "UploadPart",
    }
)


def _refuse_tables(action: Action) -> Action:
    """Return an action that refuses the buckets of S3 Tables' tables, unless AWS allows it there."""
    if operation_name(action) in _OF_TABLES:
        return action

    @functools.wraps(action)
    def refuse(s3: S3, call: Call, request: Mapping[str, Any]) -> Any:
        if str(request.get("Bucket", "")).endswith(TABLE_STORAGE):
            raise not_allowed(operation_name(action), "BUCKET")
        return action(s3, call, request)

    return refuse


_ACTIONS: list[Action] = [
    abort_multipart_upload,
    complete_multipart_upload,
    copy_object,
    create_bucket,
    create_multipart_upload,
    delete_bucket,
    delete_object,
    delete_object_tagging,
    delete_objects,
    get_bucket_acl,
    get_bucket_location,
    get_object,
    get_object_acl,
    get_object_attributes,
    get_object_legal_hold,
    get_object_retention,
    get_object_tagging,
    head_bucket,
    head_object,
    list_buckets,
    list_multipart_uploads,
    list_object_versions,
    list_objects,
    list_objects_v2,
    list_parts,
    put_bucket_acl,
    put_object,
    put_object_acl,
    put_object_legal_hold,
    put_object_retention,
    put_object_tagging,
    restore_object,
    upload_part,
    upload_part_copy,
    *CONFIGURATIONS,
    *LISTED,
]

ACTIONS = [_refuse_tables(action) for action in _ACTIONS]
