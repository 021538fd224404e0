"""Rules for cfn-lint that know streaming, and what `headrace lint` gives them to read."""
