"""cfn-lint rules about streaming, and the templates that `headrace lint` gives them to read."""
