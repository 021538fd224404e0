"""Serves HTTP/1.1 and HTTP/2 on a socket, within bounds."""
