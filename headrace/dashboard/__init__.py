"""The dashboard: the live page of a pipeline and its JSON API, for this cloud and for an account on AWS.

`headrace.dashboard.api` is its face. Everything is read through `Account.call`, which runs an AWS operation by its
name, so that the page of AWS is the page of this cloud; only the meters differ (`cloud_account`, `aws`).
"""
