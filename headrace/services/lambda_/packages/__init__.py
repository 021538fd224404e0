"""Deployment packages and layers: unpacks them, stores them on disk, and compiles their Python code beforehand."""
