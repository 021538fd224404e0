"""Finds the bucket that a Host header names: S3's router and its old signatures have to read the same."""

from __future__ import annotations

import re

# Hosts that start with a bucket's name: bucket.s3.eu-west-1.amazonaws.com, bucket.localhost. Before an address, which
# no name can stand before, SDKs in this process put an access point's name.
_AWS_HOST = re.compile(r"(?:(.+)\.)?s3(?:[.-][a-z0-9]+)*\.amazonaws\.com(?:\.cn)?")
_LOCAL_HOST = re.compile(r"(.+?)\.(?:localhost(?:\..+)?|\d+\.\d+\.\d+\.\d+)")
# The longest host name (RFC 1035). A longer one is ignored.
_MOST_HOST_CHARACTERS = 255
# The hosts of websites: bucket.s3-website-us-east-1.amazonaws.com, bucket.s3-website.localhost.
_WEBSITE_HOST = re.compile(
    r"(.+)\.s3-website(?:[.-][a-z0-9-]+)?\.(?:localhost(?:\..+)?|amazonaws\.com(?:\.cn)?)"
)
_LOCAL_ENDPOINT = re.compile(r"(?:(.+)\.)?s3(?:\.[a-z0-9-]+)?")


def parse_website_host(host: str) -> str:
    """Return the bucket in a Host header of a website, or "" when the header is none."""
    if "s3-website" not in host or len(host) > _MOST_HOST_CHARACTERS:
        return ""
    match = _WEBSITE_HOST.fullmatch(host.partition(":")[0].lower())
    return "" if match is None else match[1]


def parse_bucket_host(host: str) -> str:
    """Return the bucket in a Host header, or "" when the header names none."""
    if len(host) > _MOST_HOST_CHARACTERS:
        return ""
    name = host.partition(":")[0].lower()
    website = parse_website_host(name)
    if website:
        return website
    match = _AWS_HOST.fullmatch(name)
    if match is not None:
        return match[1] or ""
    match = _LOCAL_HOST.fullmatch(name)
    if match is None:
        return ""
    endpoint = _LOCAL_ENDPOINT.fullmatch(match[1])
    return (endpoint[1] or "") if endpoint is not None else match[1]
