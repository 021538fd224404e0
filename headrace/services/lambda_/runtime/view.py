"""Which files of this machine a function sees: the system's and the interpreters', none of the user's.

The view lists what functions see. All else does not exist for them: the data directory (other functions' code, S3's
files, the state database), the user's home. What may lie inside a folder that they see is hidden besides: the data
directory in a project's folder, passwords in /etc.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.services.lambda_.runtime.environment import node_path, node_program
from headrace.services.lambda_.runtime.sdk_modules import sdk_folder

OPT, TMP, TASK = Path("/opt"), Path("/tmp"), Path("/var/task")
# Where Lambda's runtimes have the interpreter: observed in the first line of the AWS CLI's layer.
LANG = Path("/var/lang")
# Programs, libraries and settings of the system.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc")
# Package managers' stores: an interpreter's libraries lie in many folders of them.
_STORES = ("/nix/store", "/gnu/store", "/home/linuxbrew/.linuxbrew")
_PROCESSORS = "/sys/devices/system/cpu"
# Settings that are often links to somewhere else.
_SETTINGS = ("resolv.conf", "hosts", "localtime", "ssl", "pki", "nsswitch.conf")
# Readable for root only.
_SYSTEM_SECRETS = (
    *("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "ssl/private"),
    *("krb5.keytab", "wireguard", "NetworkManager/system-connections", "docker", "rancher"),
)
# Seen only when an interpreter is installed right into the home directory; hidden then.
_HOME_SECRETS = (
    *(".aws", ".ssh", ".gnupg", ".kube", ".docker", ".azure", ".config", ".netrc", ".npmrc"),
    *(".pypirc", ".git-credentials", ".password-store", ".local/share/keyrings", ".mozilla"),
)
# What an interpreter needs of its prefix, when the prefix is not the interpreter's alone.
_OF_A_PREFIX = ("bin", "lib", "lib64", "include", "share", "pyvenv.cfg")


@dataclass(frozen=True, slots=True)
class View:
    """What all functions of a cloud see.

    Attributes:
        seen: files and folders, read-only, none inside another.
        links: links at the root and where they lead, as on the machine, and where AWS has the interpreters.
        folders: those in which functions may write too, at their own paths.
        hidden: paths that functions must not see, although they may lie in those above.
    """

    seen: tuple[Path, ...]
    links: tuple[tuple[Path, str], ...]
    folders: tuple[Path, ...]
    hidden: tuple[Path, ...]

    @property
    def path(self) -> str:
        """PATH for functions: the interpreters, then of the cloud's own PATH what functions see."""
        shown = (*self.seen, *self.folders, *(link for link, _ in self.links))
        interpreters = [
            str(Path(program).parent) for program in (sys.executable, node_program()) if program
        ]
        rest = [part for part in os.get_exec_path() if covers(shown, Path(part))]
        return os.pathsep.join(dict.fromkeys([*interpreters, *rest]))


def covers(folders: Iterable[Path], path: Path) -> bool:
    """Whether `path` is one of `folders` or lies in one."""
    return any(path.is_relative_to(folder) for folder in folders)


def make_view(data_dir: Path, folders: Sequence[Path] = ()) -> View:
    """Return what the functions of the cloud on `data_dir` see; in `folders` they may write besides."""
    system = [Path(name) for name in _SYSTEM]
    links = tuple((path, str(path.readlink())) for path in system if path.is_symlink())
    roots = [path for path in system if path.is_dir() and not path.is_symlink()]
    more = {*_interpreters(), *_settings(), Path(_PROCESSORS)}
    more |= {store for store in map(Path, _STORES) if any(p.is_relative_to(store) for p in more)}
    seen = list(roots)
    for path in sorted(more, key=lambda path: len(path.parts)):
        # Links at the root lead into /usr, which is seen.
        if path.exists() and not covers((*seen, *(link for link, _ in links)), path):
            seen.append(path)
    links += _runtime_links()
    hidden = [Path("/etc") / name for name in _SYSTEM_SECRETS]
    hidden += [home / name for home in _homes() for name in _HOME_SECRETS]
    hidden += _spellings(data_dir)
    return View(tuple(seen), links, tuple(path.resolve() for path in folders), tuple(hidden))


def _runtime_links() -> tuple[tuple[Path, str], ...]:
    """Return links at the places of AWS's interpreters, which scripts of layers name, such as the AWS CLI of CDK's."""
    node = node_program()
    programs = [("python", sys.executable), ("python3", sys.executable), ("node", node)]
    return tuple((LANG / "bin" / name, program) for name, program in programs if program)


def _homes() -> list[Path]:
    """Return the user's home directory, as it is written and without links; nothing for a user without one."""
    home = Path("~").expanduser() if os.path.expanduser("~") != "~" else None  # noqa: PTH111 - raises instead
    return [] if home is None else _spellings(home)


def _spellings(path: Path) -> list[Path]:
    """Return a path as it is written, and without links."""
    written = Path(os.path.abspath(path))  # noqa: PTH100 - links are to stay
    return list(dict.fromkeys([written, path.resolve()]))


def _interpreters() -> Iterator[Path]:
    """Yield what Python and Node.js need outside of the system's folders, and headrace itself."""
    prefixes = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
    node = node_program()
    if node is not None:
        # .../bin/node of nvm and its like; of a program in another folder, the file alone.
        folder = Path(node).parent
        prefixes.append(str(folder.parent if folder.name == "bin" else node))
    for prefix in dict.fromkeys(prefixes):
        for path in _spellings(Path(prefix)):
            yield from _parts(path)
    yield from _links_of(Path(sys.executable))
    if node is not None:
        yield from _links_of(Path(node))
    # Node.js clients lie in the package; `pip install -e` does not copy it into the prefix.
    yield Path(__file__).resolve().parents[3]
    sdk = sdk_folder()
    with contextlib.suppress(OSError):
        # It must be there to be seen: what is installed later shows in it.
        sdk.mkdir(parents=True, exist_ok=True)
    for path in (*_import_folders(), *map(Path, node_path()), sdk):
        for spelling in _spellings(path):
            yield from _parts(spelling)


def _parts(prefix: Path) -> Iterator[Path]:
    """Yield a prefix, or what an interpreter needs of it when it holds the user's home as well."""
    if not any(home.is_relative_to(prefix) for home in _homes()):
        yield prefix
    elif prefix != Path("/"):
        yield from (prefix / name for name in _OF_A_PREFIX)


def _links_of(program: Path) -> Iterator[Path]:
    """Yield the links by which a program is reached; each must be there for the next to be found."""
    for _ in range(40):
        yield program
        if not program.is_symlink():
            return
        program = Path(os.path.normpath(program.parent / program.readlink()))


def _import_folders() -> Iterator[Path]:
    """Yield where a function's Python looks for modules beside its prefix: user site, `.pth` files.

    Functions do not get what came from PYTHONPATH, or from the folder in which headrace was started.
    """
    own = {"", ".", str(Path.cwd()), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    for entry in sys.path:
        if entry not in own:
            yield Path(entry)


def _settings() -> Iterator[Path]:
    """Yield what settings in /etc link to outside of it."""
    for name in _SETTINGS:
        real = (Path("/etc") / name).resolve()
        if real.exists() and not covers((Path("/etc"), Path("/proc")), real):
            # systemd and its like put a new file in the place of the old one: the folder is what stays.
            yield real.parent if real.is_relative_to("/run") and len(real.parts) > 3 else real
