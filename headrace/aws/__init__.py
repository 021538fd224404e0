"""The protocol layer: AWS's wire, driven by botocore's service models. Knows no service's logic."""
