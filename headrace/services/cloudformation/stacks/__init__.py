"""Stacks as they are stored: their state, exports, notifications."""
