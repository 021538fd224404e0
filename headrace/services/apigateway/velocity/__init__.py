"""The Velocity template language of mapping templates."""
