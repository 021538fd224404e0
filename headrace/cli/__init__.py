"""The `headrace` command: a file for each subcommand, and what they share."""
