"""Server-side encryption: checks and stores the encryption parameters of requests, and refuses reads without the key.

Nothing is encrypted: objects are plain files. The parameters are checked as on AWS, and responses name the encryption
that the client asked for. The error messages are observed in AWS's recorded answers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import uuid
from collections.abc import Mapping
from typing import Any, Protocol

from headrace.aws.calls.errors import AwsError, build_malformed_xml
from headrace.aws.shapes.s3 import ServerSideEncryptionConfiguration
from headrace.core.arn import Arn, InvalidArn, partition_of
from headrace.core.ports import ControlPlane
from headrace.core.values import section
from headrace.services.s3.errors import invalid_argument, invalid_request
from headrace.services.s3.state import Bucket, EncryptionMembers, StoredObject

NAME = "BucketEncryption"
AES256 = "AES256"
_KMS = ("aws:kms", "aws:kms:dsse")
_KEY_BYTES = 32
_ARGUMENT = "x-amz-server-side-encryption"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|mrk-[0-9a-f]{32}")


class Keys(Protocol):
    """The KMS keys that S3 may use."""

    def usable(self, key_id: str, account: str, region: str) -> str:
        """Return the ARN of a key, or "" for the AWS managed key. Raises AwsError when the key cannot be used."""
        ...


class AnyKey:
    """Implements `Keys` without KMS: every key exists and can be used."""

    def usable(self, key_id: str, account: str, region: str) -> str:
        """See `Keys.usable`."""
        if key_id.startswith("arn:"):
            return key_id
        name = key_id or str(uuid.uuid5(uuid.NAMESPACE_URL, f"{account}/{region}/aws/s3"))
        return f"arn:{partition_of(region)}:kms:{region}:{account}:key/{name}"


class KmsKeys:
    """Implements `Keys` with KMS."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def usable(self, key_id: str, account: str, region: str) -> str:
        """See `Keys.usable`."""
        if not key_id:
            key = self._describe("alias/aws/s3", account, region)
            return AnyKey().usable("", account, region) if key is None else str(key["Arn"])
        arn = self._check_arn(key_id, account, region)
        # The key may belong to another account, whose key policy lets this account use it.
        key = self._describe(key_id, Arn.parse(arn).account, region)
        if key is None:
            raise _not_found(f"Key '{arn}' does not exist")
        if key["KeyState"] == "Disabled":
            raise AwsError("KMS.DisabledException", f"{key['Arn']} is disabled.")
        if key["KeyState"] == "PendingDeletion":
            sentence = f"{key['Arn']} is pending deletion."
            raise AwsError("KMS.KMSInvalidStateException", sentence)
        if key["KeyState"] == "PendingImport":
            raise AwsError("KMS.KMSInvalidStateException", f"{key['Arn']} is pending import.")
        return str(key["Arn"])

    def _check_arn(self, key_id: str, account: str, region: str) -> str:
        if key_id.startswith("arn:"):
            try:
                parsed = Arn.parse(key_id)
            except InvalidArn:
                raise _not_found(f"Invalid keyId '{key_id}'") from None
            if parsed.region != region:
                raise _not_found(f"Invalid arn {parsed.region}")
            return key_id
        if not key_id.startswith("alias/") and not _UUID.fullmatch(key_id):
            raise _not_found(f"Invalid keyId '{key_id}'")
        return f"arn:{partition_of(region)}:kms:{region}:{account}:key/{key_id}"

    def _describe(self, key_id: str, account: str, region: str) -> dict[str, Any] | None:
        try:
            answer = self._control.call(
                "kms", "DescribeKey", {"KeyId": key_id}, account=account, region=region
            )
        except AwsError:
            return None
        metadata: dict[str, Any] = answer["KeyMetadata"]
        return metadata


def _not_found(sentence: str) -> AwsError:
    return AwsError("KMS.NotFoundException", sentence)


def read_write_settings(params: Mapping[str, Any], bucket: Bucket, keys: Keys) -> dict[str, str]:
    """Return the encryption settings that are stored with a new object; {} means AES256. Raises AwsError."""
    customer_md5 = read_customer_key(params)
    configuration: dict[str, Any] = bucket.configurations.get(NAME) or {}
    rules: list[dict[str, Any]] = configuration.get("Rules") or [{}]
    if customer_md5:
        if "SSE-C" in section(rules[0], "BlockedEncryptionTypes").get("EncryptionType", ()):
            # The code is documented (blocking-unblocking-s3-c-encryption-gpb.html), the sentence assumed.
            raise AwsError("AccessDenied", "Access Denied", 403)
        return {"customer_md5": customer_md5}
    algorithm, key_id = params.get("ServerSideEncryption"), params.get("SSEKMSKeyId") or ""
    bucket_key = params.get("BucketKeyEnabled")
    if not algorithm:
        default: dict[str, str] = rules[0].get("ApplyServerSideEncryptionByDefault") or {}
        algorithm = default.get("SSEAlgorithm") or AES256
        key_id = key_id or default.get("KMSMasterKeyID") or ""
        if bucket_key is None:
            bucket_key = rules[0].get("BucketKeyEnabled")
    if algorithm == AES256:
        return {}
    if algorithm not in _KMS:
        # Assumed: this message is observed only for customer-provided keys.
        sentence = "The Encryption request you specified is not valid. Supported value: AES256."
        raise _bad_algorithm(sentence, str(algorithm))
    settings = {
        "algorithm": str(algorithm),
        "key": keys.usable(key_id, bucket.account, bucket.region),
    }
    if is_true(bucket_key):
        settings["bucket_key"] = "true"
    return settings


def is_true(value: Any) -> bool:
    """Whether a boolean parameter is true; it is text from a header, or a bool from a caller inside this process."""
    return value is True or str(value).lower() == "true"


def read_customer_key(params: Mapping[str, Any], prefix: str = "") -> str:
    """Return the MD5 of the customer-provided key in a request, or "" when it has none. Raises AwsError."""
    algorithm = params.get(f"{prefix}SSECustomerAlgorithm")
    key, md5 = params.get(f"{prefix}SSECustomerKey"), params.get(f"{prefix}SSECustomerKeyMD5")
    if not (algorithm or key or md5):
        return ""
    if not prefix and params.get("ServerSideEncryption"):
        raise invalid_argument(
            "Server Side Encryption with Customer provided key is incompatible with the encryption method specified",
            _ARGUMENT,
            str(params["ServerSideEncryption"]),
        )
    if algorithm and algorithm != AES256:
        sentence = "The Encryption request you specified is not valid. Supported value: AES256."
        raise _bad_algorithm(sentence, str(algorithm))
    if not algorithm:
        raise _bad_key(
            "Requests specifying Server Side Encryption with Customer provided keys must provide a valid encryption"
            " algorithm."
        )
    if not key:
        raise _bad_key(
            "Requests specifying Server Side Encryption with Customer provided keys must provide an appropriate secret"
            " key."
        )
    raw = _decode_key(key)
    if len(raw) != _KEY_BYTES or not md5:
        raise _bad_key("The secret key was invalid for the specified algorithm.")
    computed = base64.b64encode(hashlib.md5(raw, usedforsecurity=False).digest()).decode()
    if computed != md5:
        raise _bad_key(
            "The calculated MD5 hash of the key did not match the hash that was provided."
        )
    return computed


def _decode_key(key: Any) -> bytes:
    if isinstance(key, bytes):
        return key
    try:
        return base64.b64decode(str(key), validate=True)
    except (binascii.Error, ValueError):
        return b""


def check_read(stored: StoredObject, params: Mapping[str, Any], prefix: str = "") -> None:
    """Refuse a read without the customer-provided key that the object was written with. Raises AwsError."""
    stored_md5 = stored.encryption.get("customer_md5", "")
    if (
        stored_md5
        and params.get(f"{prefix}SSECustomerKey")
        and not params.get(f"{prefix}SSECustomerKeyMD5")
    ):
        raise _wrong_key()
    request_md5 = read_customer_key(params, prefix)
    if stored_md5 and not request_md5:
        raise invalid_request(
            "The object was stored using a form of Server Side Encryption. The correct parameters must be provided to"
            " retrieve the object."
        )
    if request_md5 and not stored_md5:
        # Assumed: users report this message.
        raise invalid_request("The encryption parameters are not applicable to this object.")
    if stored_md5 != request_md5:
        raise _wrong_key()


def check_part(encryption: Mapping[str, str], params: Mapping[str, Any]) -> None:
    """Refuse a part whose customer-provided key differs from that of its upload. Raises AwsError."""
    stored_md5, md5s = encryption.get("customer_md5", ""), read_customer_key(params)
    if bool(stored_md5) != bool(md5s):
        raise invalid_request(
            "The multipart upload initiate requested encryption. Subsequent part requests must include the appropriate"
            " encryption parameters."
        )
    if stored_md5 != md5s:
        raise invalid_request(
            "The provided encryption parameters did not match the ones used originally."
        )


def render_members(encryption: Mapping[str, str]) -> EncryptionMembers:
    """Return the members of responses that name an object's encryption."""
    if "customer_md5" in encryption:
        return {"SSECustomerAlgorithm": AES256, "SSECustomerKeyMD5": encryption["customer_md5"]}
    if not encryption:
        return {"ServerSideEncryption": AES256}
    result: EncryptionMembers = {
        "ServerSideEncryption": encryption["algorithm"],
        "SSEKMSKeyId": encryption["key"],
    }
    if "bucket_key" in encryption:
        result["BucketKeyEnabled"] = True
    return result


_HEADERS = {
    "ServerSideEncryption": "x-amz-server-side-encryption",
    "SSEKMSKeyId": "x-amz-server-side-encryption-aws-kms-key-id",
    "BucketKeyEnabled": "x-amz-server-side-encryption-bucket-key-enabled",
    "SSECustomerAlgorithm": "x-amz-server-side-encryption-customer-algorithm",
    "SSECustomerKeyMD5": "x-amz-server-side-encryption-customer-key-MD5",
}


def render_headers(encryption: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the headers of responses that name an object's encryption."""
    if not encryption:
        return [("x-amz-server-side-encryption", AES256)]
    return [
        (_HEADERS[name], "true" if value is True else str(value))
        for name, value in render_members(encryption).items()
    ]


def _bad_algorithm(sentence: str, algorithm: str) -> AwsError:
    details = {"ArgumentName": _ARGUMENT, "ArgumentValue": algorithm}
    return AwsError("InvalidEncryptionAlgorithmError", sentence, 400, details)


def _bad_key(sentence: str) -> AwsError:
    return invalid_argument(sentence, _ARGUMENT, "null")


def _wrong_key() -> AwsError:
    return AwsError(
        "AccessDenied",
        "Requests specifying Server Side Encryption with Customer provided keys must provide the correct secret key.",
        403,
    )


def check_configuration(value: ServerSideEncryptionConfiguration) -> None:
    """Check a bucket's encryption configuration as AWS does. Raises AwsError."""
    rules = value.get("Rules") or []
    if len(rules) != 1:
        raise build_malformed_xml()
    default = rules[0].get("ApplyServerSideEncryptionByDefault")
    if not default:
        return
    if default.get("SSEAlgorithm") not in (AES256, *_KMS):
        raise build_malformed_xml()  # assumed: as other elements that the schema does not allow
    if default.get("KMSMasterKeyID") and default.get("SSEAlgorithm") not in _KMS:
        raise AwsError(
            "InvalidArgument",
            "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or aws:kms:dsse",
            400,
            {"ArgumentName": "ApplyServerSideEncryptionByDefault"},
        )
