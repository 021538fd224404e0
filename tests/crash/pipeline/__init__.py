"""Kills, stops, pauses, jumping clocks and full disks for a whole pipeline, and what must hold through them."""
