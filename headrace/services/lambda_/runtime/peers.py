"""Finds out whether a connection on loopback comes from one of a function's own processes.

All functions share the machine's network, so each can connect to every port of 127.0.0.1. The kernel knows which socket
is the other end of a connection, and which processes hold it. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

# Linux's include/uapi/linux/{netlink,sock_diag,inet_diag}.h.
_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = 1
_ALL_STATES = 0xFFFF_FFFF
_NO_COOKIE = b"\xff" * 8
_HEADER = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBxI")
_PORTS = struct.Struct("!HH")
_INODE = struct.Struct("=I")
# The inode is the last member of the answer: a header, four bytes, the socket's id of 48 bytes, and five numbers.
_INODE_OFFSET = _HEADER.size + 4 + 48 + 16
_PADDING = bytes(12)


def is_of_process(pid: int, connection: socket.socket) -> bool:
    """Whether a process or one of its descendants holds the other end of a connection on 127.0.0.1."""
    inode = _find_peer_inode(connection)
    if not inode:
        return False
    link = f"socket:[{inode}]"
    return any(link in _list_links(process_id) for process_id in _list_family(pid))


def _find_peer_inode(connection: socket.socket) -> int:
    """Return the inode of the other end of a connection; 0 when that is closed already."""
    try:
        near, far = connection.getsockname(), connection.getpeername()
    except OSError:
        return 0
    try:
        return _find_inode_by_netlink(far, near)
    except FileNotFoundError:
        return 0
    except OSError:
        return _find_inode_in_table(far, near)


def _find_inode_by_netlink(local: tuple[str, int], remote: tuple[str, int]) -> int:
    """Ask the kernel for one socket. Raises FileNotFoundError, or OSError where the kernel is not to be asked."""
    ends = (socket.inet_aton(local[0]) + _PADDING, socket.inet_aton(remote[0]) + _PADDING)
    question = (
        _QUESTION.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, _ALL_STATES)
        + _PORTS.pack(local[1], remote[1])
        + b"".join(ends)
        + bytes(4)
        + _NO_COOKIE
    )
    header = _HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as netlink:
        netlink.settimeout(1)
        netlink.sendto(header + question, (0, 0))
        answer = netlink.recv(4096)
    kind = _HEADER.unpack_from(answer)[1]
    if kind != _BY_FAMILY:
        error = -struct.unpack_from("=i", answer, _HEADER.size)[0]
        raise OSError(error, os.strerror(error))
    return int(_INODE.unpack_from(answer, _INODE_OFFSET)[0])


def _find_inode_in_table(local: tuple[str, int], remote: tuple[str, int]) -> int:
    """Find a socket in the kernel's list of all; 0 when it is not there. Slow where there are many."""
    ends = [f"{_format_hexadecimal(address)}:{port:04X}" for address, port in (local, remote)]
    with open("/proc/net/tcp") as table:  # noqa: PTH123 - read line by line
        for line in table:
            fields = line.split()
            if fields[1:3] == ends:
                return int(fields[9])
    return 0


def _format_hexadecimal(address: str) -> str:
    return f"{struct.unpack('=I', socket.inet_aton(address))[0]:08X}"


def _list_family(pid: int) -> Iterator[int]:
    """Yield a process and its descendants, whichever of their threads started them."""
    family = [pid]
    for process_id in family:
        yield process_id
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{process_id}/task").iterdir():
                family.extend(map(int, (thread / "children").read_text().split()))


def _list_links(pid: int) -> set[str]:
    """Return what the descriptors of a process are; nothing of a process that has ended."""
    links: set[str] = set()
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                links.add(str(descriptor.readlink()))
    return links
