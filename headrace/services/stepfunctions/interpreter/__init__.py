"""Runs the Amazon States Language."""
