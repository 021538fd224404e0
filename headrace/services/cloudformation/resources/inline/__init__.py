"""Modules that CloudFormation puts beside a function's inline code (`ZipFile`), when that names them: `cfn-response`.

Documented: docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cfn-lambda-function-code-cfnresponsemodule.html.
"""

from __future__ import annotations

import functools
from pathlib import Path

# By the beginning of a runtime's name: what the source says, the file that it then finds, the file here.
_MODULES = {
    "python": ("cfnresponse", "cfnresponse.py", "cfnresponse.py"),
    "nodejs": ("cfn-response", "node_modules/cfn-response/index.js", "cfn_response.cjs"),
}


def modules_for(runtime: str, source: str) -> dict[str, str]:
    """Return the files to add to inline code, by path in the package."""
    for beginning, (named, path, file) in _MODULES.items():
        if runtime.startswith(beginning) and named in source:
            return {path: _text(file)}
    return {}


@functools.cache
def _text(file: str) -> str:
    return (Path(__file__).parent / file).read_text(encoding="utf-8")
