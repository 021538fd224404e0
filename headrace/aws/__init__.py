"""The protocol layer: AWS's HTTP protocols, driven by botocore's service models. It knows the logic of no service."""
