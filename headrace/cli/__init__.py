"""The `headrace` command: a file for each subcommand, and the code that they share."""
