"""Lists the files of this machine that functions see: those of the system and the interpreters, none of the user's.

No other file exists for a function, such as those in the data directory (other functions' code, S3's files, the state
database) or in the user's home. The view also lists private files inside folders that functions see, which must be
hidden: the data directory in a project's folder, or the password files in /etc.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.services.lambda_.runtime.environment import find_node_program, list_node_path
from headrace.services.lambda_.runtime.sdk_modules import find_sdk_folder

OPT, TMP, TASK = Path("/opt"), Path("/tmp"), Path("/var/task")
# The file of authorities in Lambda's Node.js runtimes (documented: their page, "NODE_EXTRA_CA_CERTS").
TRUST = Path("/var/runtime/ca-cert.pem")
# The folder of the interpreter in Lambda's runtimes: observed in the first line of the AWS CLI's layer.
LANG = Path("/var/lang")
# Programs, libraries and settings of the system.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc")
# The stores of package managers, in which an interpreter's libraries are in many folders.
_STORES = ("/nix/store", "/gnu/store", "/home/linuxbrew/.linuxbrew")
_PROCESSORS = "/sys/devices/system/cpu"
# Settings in /etc that are often links to other folders.
_SETTINGS = ("resolv.conf", "hosts", "localtime", "ssl", "pki", "nsswitch.conf")
# Files in /etc that only root may read.
_SYSTEM_SECRETS = (
    *("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "ssl/private"),
    *("krb5.keytab", "wireguard", "NetworkManager/system-connections", "docker", "rancher"),
)
# Functions would see these only if an interpreter is installed directly in the home directory; then they are hidden.
_HOME_SECRETS = (
    *(".aws", ".ssh", ".gnupg", ".kube", ".docker", ".azure", ".config", ".netrc", ".npmrc"),
    *(".pypirc", ".git-credentials", ".password-store", ".local/share/keyrings", ".mozilla"),
)
# The folders that an interpreter needs from its prefix, if the prefix also contains other files.
_OF_A_PREFIX = ("bin", "lib", "lib64", "include", "share", "pyvenv.cfg")


@dataclass(frozen=True, slots=True)
class VisibleFiles:
    """The files that all functions of a cloud see.

    Attributes:
        seen: files and folders that are mounted read-only; none is inside another.
        links: links in the root folder with their targets, from the machine and for the paths of AWS's interpreters.
        folders: folders, mounted at their own paths, in which functions may also write.
        hidden: paths inside the folders above that functions must not see.
    """

    seen: tuple[Path, ...]
    links: tuple[tuple[Path, str], ...]
    folders: tuple[Path, ...]
    hidden: tuple[Path, ...]

    @property
    def path(self) -> str:
        """PATH for functions: the interpreters' folders, then the folders of the cloud's PATH that functions see."""
        shown = (*self.seen, *self.folders, *(link for link, _ in self.links))
        interpreters = [
            str(Path(program).parent)
            for program in (sys.executable, find_node_program())
            if program
        ]
        rest = [part for part in os.get_exec_path() if covers(shown, Path(part))]
        return os.pathsep.join(dict.fromkeys([*interpreters, *rest]))


def covers(folders: Iterable[Path], path: Path) -> bool:
    """Whether `path` is one of `folders` or lies in one."""
    return any(path.is_relative_to(folder) for folder in folders)


def find_visible_files(data_dir: Path, folders: Sequence[Path] = ()) -> VisibleFiles:
    """Return the view for functions of the cloud with this `data_dir`, which may also write to `folders`."""
    system = [Path(name) for name in _SYSTEM]
    links = tuple((path, str(path.readlink())) for path in system if path.is_symlink())
    roots = [path for path in system if path.is_dir() and not path.is_symlink()]
    more = {*_list_interpreters(), *_list_settings(), Path(_PROCESSORS)}
    more |= {store for store in map(Path, _STORES) if any(p.is_relative_to(store) for p in more)}
    seen = list(roots)
    for path in sorted(more, key=lambda path: len(path.parts)):
        # Links in the root folder lead into /usr, which functions see.
        if path.exists() and not covers((*seen, *(link for link, _ in links)), path):
            seen.append(path)
    links += _list_runtime_links()
    hidden = [Path("/etc") / name for name in _SYSTEM_SECRETS]
    hidden += [home / name for home in _list_homes() for name in _HOME_SECRETS]
    hidden += _list_spellings(data_dir)
    return VisibleFiles(
        tuple(seen), links, tuple(path.resolve() for path in folders), tuple(hidden)
    )


def _list_runtime_links() -> tuple[tuple[Path, str], ...]:
    """Return links at the paths of AWS's interpreters, which scripts in layers use (such as the AWS CLI in CDK's)."""
    node = find_node_program()
    programs = [("python", sys.executable), ("python3", sys.executable), ("node", node)]
    return tuple((LANG / "bin" / name, program) for name, program in programs if program)


def _list_homes() -> list[Path]:
    """Return the user's home directory, as written and with links resolved; [] for a user without one."""
    home = Path("~").expanduser() if os.path.expanduser("~") != "~" else None  # noqa: PTH111 - Path.home raises an error
    return [] if home is None else _list_spellings(home)


def _list_spellings(path: Path) -> list[Path]:
    """Return a path as written, and with links resolved."""
    written = Path(os.path.abspath(path))  # noqa: PTH100 - links must stay
    return list(dict.fromkeys([written, path.resolve()]))


def _list_interpreters() -> Iterator[Path]:
    """Yield the files that Python and Node.js need outside the system's folders, and headrace's own."""
    prefixes = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
    node = find_node_program()
    if node is not None:
        # For .../bin/node, as nvm installs it, use the prefix; for a program in any other folder, only the file.
        folder = Path(node).parent
        prefixes.append(str(folder.parent if folder.name == "bin" else node))
    for prefix in dict.fromkeys(prefixes):
        for path in _list_spellings(Path(prefix)):
            yield from _list_parts(path)
    yield from _list_links(Path(sys.executable))
    if node is not None:
        yield from _list_links(Path(node))
    # The Node.js client is in headrace's package, which `pip install -e` does not copy into the prefix.
    yield Path(__file__).resolve().parents[3]
    sdk = find_sdk_folder()
    with contextlib.suppress(OSError):
        # The folder must exist to be mounted; packages that are installed later appear in it.
        sdk.mkdir(parents=True, exist_ok=True)
    for path in (*_import_folders(), *map(Path, list_node_path()), sdk):
        for spelling in _list_spellings(path):
            yield from _list_parts(spelling)


def _list_parts(prefix: Path) -> Iterator[Path]:
    """Yield a prefix, or only the folders that an interpreter needs if the prefix contains the user's home."""
    if not any(home.is_relative_to(prefix) for home in _list_homes()):
        yield prefix
    elif prefix != Path("/"):
        yield from (prefix / name for name in _OF_A_PREFIX)


def _list_links(program: Path) -> Iterator[Path]:
    """Yield the program and each link on the way to its file, since all must exist to find the file."""
    for _ in range(40):
        yield program
        if not program.is_symlink():
            return
        program = Path(os.path.normpath(program.parent / program.readlink()))


def _import_folders() -> Iterator[Path]:
    """Yield the folders outside the prefix in which Python looks for modules: the user site, and those of `.pth` files.

    Folders from PYTHONPATH, and the folder in which headrace was started, are not among them.
    """
    own = {"", ".", str(Path.cwd()), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    for entry in sys.path:
        if entry not in own:
            yield Path(entry)


def _list_settings() -> Iterator[Path]:
    """Yield the targets outside /etc to which settings in /etc are links."""
    for name in _SETTINGS:
        real = (Path("/etc") / name).resolve()
        if real.exists() and not covers((Path("/etc"), Path("/proc")), real):
            # Yield the folder, because systemd and similar programs replace the file with a new one.
            yield real.parent if real.is_relative_to("/run") and len(real.parts) > 3 else real
