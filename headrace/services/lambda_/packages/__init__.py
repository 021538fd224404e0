"""Deployment packages and layers: unpacked, kept on disk, compiled beforehand."""
