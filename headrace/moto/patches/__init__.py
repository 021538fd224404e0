"""Corrects services of moto's that have no room of their own, a file each."""
