"""Checks that the roles of a delivery stream allow what Firehose does with them.

The actions are from docs.aws.amazon.com/firehose/latest/dev/controlling-access.html (documented), by what Firehose
reads, invokes and writes. A missing permission makes CreateDeliveryStream fail, and later a delivery.

Checks that a delivery stream's customer-managed KMS key exists, is enabled and is not pending deletion.

Source of the error and of its four causes: firehose/latest/APIReference/API_StartDeliveryStreamEncryption.html and
API_PutRecord.html; of the metrics: firehose/latest/dev/monitoring-with-cloudwatch-metrics.html (documented). The
sentences are KMS'. Assumed: Firehose repeats them, and CreateDeliveryStream fails with this error at once instead of
creating a delivery stream that becomes CREATING_FAILED.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import make_arn
from headrace.core.ports import AnyKeys, CallerIdentity, Guard, KeyStates
from headrace.core.values import get_mapping
from headrace.permissions.requests.keys import keys_of_service
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.state import DeliveryStream


class KeyUnusable(Exception):
    """A customer-managed key cannot be used now.

    Attributes:
        code: KMS' code, such as `DisabledException`.
        message: its sentence.
        metric: the CloudWatch metric that counts it.
    """

    def __init__(self, code: str, message: str, metric: str) -> None:
        super().__init__(message)
        self.code, self.message, self.metric = code, message, metric


class StreamKeys:
    """Checks delivery streams' keys. Thread-safe.

    Args:
        keys: KMS.
    """

    def __init__(self, keys: KeyStates | None = None) -> None:
        self._keys = keys or AnyKeys()

    def check(self, stream: DeliveryStream, arn: str | None = None) -> None:
        """Raise KeyUnusable unless a stream's key, or the key of this ARN, can be used; AWS-owned keys always can."""
        key_arn = arn or str(stream.encryption.get("KeyARN") or "")
        if not key_arn:
            return
        key_found, state = self._keys.state_of_key(key_arn, stream.account, stream.region)
        if not key_found or key_arn.split(":", 5)[3] != stream.region:
            raise KeyUnusable(
                "NotFoundException", f"Key '{key_arn}' does not exist", "KMSKeyNotFound"
            )
        if state == "Disabled":
            raise KeyUnusable("DisabledException", f"{key_found} is disabled.", "KMSKeyDisabled")
        if state != "Enabled":
            words = "pending deletion" if state == "PendingDeletion" else f"in the state {state}"
            raise KeyUnusable(
                "InvalidStateException", f"{key_found} is {words}.", "KMSKeyInvalidState"
            )

    def require(self, stream: DeliveryStream, arn: str | None = None) -> None:
        """Do `check` for a request. Raises AwsError InvalidKMSResourceException."""
        try:
            self.check(stream, arn)
        except KeyUnusable as error:
            raise AwsError(
                "InvalidKMSResourceException", error.message, members={"code": error.code}
            ) from error


SERVICE = "firehose.amazonaws.com"
# The session name is assumed.
SESSION = "AWSFirehoseToS3"

# AWS documents ListShards too, and does without: templates that AWS publishes leave it out
# (kinesis-data-stream-firehose-apigw-sam, kds-kdf-opensearch), and reported refusals name DescribeStream (CDK #5221).
_READS = ("DescribeStream", "GetShardIterator", "GetRecords")
_SSE = "s3:x-amz-server-side-encryption"
_OF_BUCKET = ("GetBucketLocation", "ListBucket", "ListBucketMultipartUploads")
_OF_OBJECT = ("AbortMultipartUpload", "GetObject")
_OF_DOMAIN = ("DescribeDomain", "DescribeDomains", "DescribeDomainConfig")
# Either one is enough: the second is the first's older name.
_SEES_DOMAIN = ("DescribeDomain", "DescribeElasticsearchDomain")
_WRITES_DOMAIN = ("ESHttpPost", "ESHttpPut")
_OF_TABLE = ("GetTable", "GetTableVersion", "GetTableVersions")


class RoleDenied(Exception):
    """A role lacks a permission that a delivery needs.

    Attributes:
        code: Firehose's code in the log.
        message: its sentence, with IAM's reason.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


RequiredPermission = tuple[str, str, str]


def check_roles(guard: Guard, stream: DeliveryStream, before: DeliveryStream | None = None) -> None:
    """Raise AwsError for a delivery stream whose roles Firehose may not assume, or that may not read the source.

    For an update, check only roles and permissions that the stream did not need `before`.
    """
    known = set(_list_roles(before)) if before is not None else set[str]()
    for role in sorted({role for role in _list_roles(stream) if role} - known):
        acting = CallerIdentity(SERVICE, source_arn=stream.arn)
        if guard.denial(acting, "sts:AssumeRole", role):
            raise invalid(
                f"Firehose is unable to assume role {role}. Please check the role provided."
            )
    met = (
        set(_list_required_permissions(before)) if before is not None else set[RequiredPermission]()
    )
    for role, action, resource in _list_required_permissions(stream):
        if (role, action, resource) in met:
            continue
        if guard.denial(CallerIdentity(role, SESSION), action, resource):
            raise invalid(
                f"Role {role} is not authorized to perform: {action} on resource {resource}."
            )


def check_domain(guard: Guard, stream: DeliveryStream) -> None:
    """Raise AwsError for an OpenSearch domain that the role may not describe."""
    arn = find_domain(stream)
    acting = CallerIdentity(_find_role(stream), SESSION)
    if arn and all(guard.denial(acting, f"es:{name}", arn) for name in _SEES_DOMAIN):
        raise no_domain(arn)


def find_domain(stream: DeliveryStream) -> str:
    """Return the ARN of a delivery stream's OpenSearch domain; empty for none."""
    return str(stream.destination.get("DomainARN") or "")


def no_domain(arn: str) -> AwsError:
    """Return the error for a domain that the role cannot describe.

    Observed by others: github.com/aws-samples/amazon-elasticsearch-intro-workshop/issues/10. Assumed: a missing domain
    gives the same error.
    """
    return invalid(f"Verify that the IAM role has access to the Elasticsearch domain: {arn}")


def check_source(guard: Guard, stream: DeliveryStream) -> None:
    """Raise Denied when the role may not read the stream."""
    _check(guard, _list_source_permissions(stream), "Kinesis.AccessDenied")


def check_table(guard: Guard, stream: DeliveryStream) -> None:
    """Raise Denied when the role may not read the table of a conversion."""
    _check(guard, _list_table_permissions(stream), "DataFormatConversion.AccessDenied")


def check_object(guard: Guard, s3: Mapping[str, Any], key: str) -> None:
    """Raise Denied when the role of an S3 configuration may not put an object.

    What else AWS documents as needed is noted only: of Kinesis' channels less than of delivery streams
    (streams/latest/dev/data-delivery-iam.html).
    """
    role, bucket, key_arn = str(s3.get("RoleARN") or ""), str(s3["BucketARN"]), find_key(s3)
    is_order = "ExpectedBucketOwner" in s3
    for action in _OF_BUCKET[1:] if is_order else _OF_BUCKET:
        guard.denial(CallerIdentity(role, SESSION), f"s3:{action}", bucket)
    for action in () if is_order else _OF_OBJECT:
        guard.denial(CallerIdentity(role, SESSION), f"s3:{action}", f"{bucket}/{key}")
    # A key in the request's headers replaces the bucket's default key.
    headers = {_SSE: ("aws:kms",), f"{_SSE}-aws-kms-key-id": (key_arn,)} if key_arn else None
    put = [(role, "s3:PutObject", f"{bucket}/{key}")]
    _check(guard, put, "S3.AccessDenied", headers)
    if key_arn:
        permissions = [(role, f"kms:{name}", key_arn) for name in ("GenerateDataKey", "Decrypt")]
        region, account = key_arn.split(":", 5)[3:5]
        context = keys_of_service("s3", account, region, f"{bucket}/{key}")
        _check(guard, permissions, "S3.KMS.AccessDeniedException", context)


def find_key(s3: Mapping[str, Any]) -> str:
    """Return the ARN of the KMS key of an S3 configuration; empty for none."""
    kms = get_mapping(get_mapping(s3, "EncryptionConfiguration"), "KMSEncryptionConfig")
    return str(kms.get("AWSKMSKeyARN") or "")


def find_function_denial(guard: Guard, stream: DeliveryStream, function_arn: str) -> str:
    """Return why the role may not invoke the function of a transformation; empty when it may."""
    acting = CallerIdentity(_find_role(stream), SESSION)
    guard.denial(acting, "lambda:GetFunctionConfiguration", function_arn)
    return guard.denial(acting, "lambda:InvokeFunction", function_arn)


def may_log(guard: Guard, stream: DeliveryStream, group: str, log_stream: str) -> bool:
    """Return whether the role may write the delivery stream's log; otherwise AWS drops the lines."""
    name = f"log-group:{group}:log-stream:{log_stream}"
    resource = make_arn("logs", stream.region, stream.account, name)
    return not guard.denial(
        CallerIdentity(_find_role(stream), SESSION), "logs:PutLogEvents", resource
    )


def find_secret_denial(guard: Guard, stream: DeliveryStream, arn: str) -> str:
    """Return why no role may read a destination's secret; empty when one may."""
    return guard.denial(
        CallerIdentity(_find_secret_role(stream), SESSION), "secretsmanager:GetSecretValue", arn
    )


def find_domain_denial(guard: Guard, stream: DeliveryStream, arn: str) -> str:
    """Return why the role may not write to an OpenSearch domain; empty when it may.

    What else AWS documents as needed is noted only.
    """
    acting = CallerIdentity(_find_role(stream), SESSION)
    for name in _OF_DOMAIN:
        guard.denial(acting, f"es:{name}", arn)
    sentences = [guard.denial(acting, f"es:{name}", f"{arn}/_bulk") for name in _WRITES_DOMAIN]
    return next(filter(None, sentences), "")


def find_collection_denial(guard: Guard, stream: DeliveryStream) -> str:
    """Return why the role may not use OpenSearch Serverless' collections; empty when it may.

    A collection's endpoint contains its id but not its account, which is assumed to be the delivery stream's.
    """
    endpoint = str(stream.destination.get("CollectionEndpoint") or "")
    name = endpoint.partition("://")[2].partition(".")[0]
    arn = make_arn("aoss", stream.region, stream.account, f"collection/{name}")
    return guard.denial(CallerIdentity(_find_role(stream), SESSION), "aoss:APIAccessAll", arn)


def _check(
    guard: Guard,
    permissions: Iterator[RequiredPermission] | Sequence[RequiredPermission],
    code: str,
    context: Mapping[str, tuple[str, ...]] | None = None,
) -> None:
    """Check every action, so that the report names all missing permissions, and then raise Denied for the first."""
    refusals = [
        guard.denial(CallerIdentity(role, SESSION), action, of, context)
        for role, action, of in permissions
    ]
    for sentence in filter(None, refusals):
        raise RoleDenied(code, f"Access was denied. {sentence}")


def _find_role(stream: DeliveryStream) -> str:
    """Return the destination's role; Splunk has only its backup's role."""
    return str(stream.destination.get("RoleARN") or stream.s3.get("RoleARN") or "")


def _find_secret_role(stream: DeliveryStream) -> str:
    secret_configuration = get_mapping(stream.destination, "SecretsManagerConfiguration")
    return str(secret_configuration.get("RoleARN") or "") or _find_role(stream)


def _list_roles(stream: DeliveryStream) -> Iterator[str]:
    yield stream.source_role_arn
    yield _find_role(stream)
    yield str(stream.s3.get("RoleARN") or "")
    yield _find_secret_role(stream)
    if stream.backup is not None:
        yield str(stream.backup.get("RoleARN") or "")
    if stream.conversion is not None:
        yield str(get_mapping(stream.conversion, "SchemaConfiguration").get("RoleARN") or "")
    if stream.destination_kind == "Iceberg":
        yield str(stream.destination["RoleARN"])


def _list_required_permissions(stream: DeliveryStream) -> Iterator[RequiredPermission]:
    yield from _list_source_permissions(stream)
    yield from _list_table_permissions(stream)


def _list_source_permissions(stream: DeliveryStream) -> Iterator[RequiredPermission]:
    # Kinesis itself delivers channels: their streams are read without a role.
    if stream.source_arn and stream.source_role_arn:
        for name in _READS:
            yield stream.source_role_arn, f"kinesis:{name}", stream.source_arn


def _list_table_permissions(stream: DeliveryStream) -> Iterator[RequiredPermission]:
    if stream.conversion is None:
        return
    schema = get_mapping(stream.conversion, "SchemaConfiguration")
    region = str(schema.get("Region") or stream.region)
    account = str(schema.get("CatalogId") or stream.account)
    database, table = schema.get("DatabaseName"), schema.get("TableName")
    for name in _OF_TABLE:
        for resource in ("catalog", f"database/{database}", f"table/{database}/{table}"):
            arn = make_arn("glue", region, account, resource)
            yield str(schema.get("RoleARN") or ""), f"glue:{name}", arn
