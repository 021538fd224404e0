"""Converts requests to moto's form, and its refusals to AWS's."""
