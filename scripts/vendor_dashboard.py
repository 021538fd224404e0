"""Writes `headrace/dashboard/static/vendor/`: the page's libraries from npm, pinned, each with its licence.

`python -m scripts.vendor_dashboard` downloads the packages with `npm pack`. Imports of a package by its name become
imports of the file beside, so that the page needs no build step and no import map.
"""

from __future__ import annotations

import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "headrace" / "dashboard" / "static" / "vendor"
# Package, file in it, the file's name here. The licence of each package is one file for all its files.
FILES = (
    ("preact@10.29.8", "dist/preact.module.js", "preact.js"),
    ("preact@10.29.8", "hooks/dist/hooks.module.js", "hooks.js"),
    ("@preact/signals-core@1.14.5", "dist/signals-core.module.js", "signals-core.js"),
    ("@preact/signals@2.11.4", "dist/signals.module.js", "signals.js"),
    ("htm@3.1.1", "dist/htm.module.js", "htm.js"),
    ("uplot@1.6.32", "dist/uPlot.iife.min.js", "uPlot.js"),
    ("uplot@1.6.32", "dist/uPlot.min.css", "uPlot.css"),
    ("@dagrejs/dagre@3.1.3", "dist/dagre.esm.js", "dagre.js"),
)
_NAMES = {
    "preact": "preact.js",
    "preact/hooks": "hooks.js",
    "@preact/signals-core": "signals-core.js",
}
_SPECIFIER = re.compile(r"""(from|import)\s*(["'])([^"'./][^"']*)\2""")
_SOURCE_MAP = re.compile(r"\n?//# sourceMappingURL=\S*")


def adapt(name: str, text: str) -> str:
    """Return a file as the page loads it: imports by path, no source map, uPlot as a module."""
    text = _SOURCE_MAP.sub("", text)
    text = _SPECIFIER.sub(lambda match: f'{match[1]}"./{_NAMES[match[3]]}"', text)
    return f"{text.rstrip()}\nexport default uPlot;\n" if name == "uPlot.js" else text


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    licences: dict[str, str] = {}
    for package in dict.fromkeys(package for package, _, _ in FILES):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["npm", "pack", package, "--silent"], cwd=folder, check=True)
            with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
                archive.extractall(folder, filter="data")
            root = Path(folder) / "package"
            for owner, path, name in FILES:
                if owner == package:
                    (FOLDER / name).write_text(adapt(name, (root / path).read_text()))
            licences[package] = next(root.glob("LICENSE*")).read_text().strip()
    text = "\n\n".join(f"{package}\n\n{licence}" for package, licence in licences.items())
    (FOLDER / "LICENSES.txt").write_text(f"{text}\n")


if __name__ == "__main__":
    main()
