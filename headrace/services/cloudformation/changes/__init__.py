"""What a change set or an update changes."""
