"""The modules that CloudFormation adds to inline code (`ZipFile`) that imports them: `cfn-response`.

Documented: docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cfn-lambda-function-code-cfnresponsemodule.html.
"""

from __future__ import annotations

import functools
from pathlib import Path

# Runtime prefix -> the import in the source, the file name in the package, the file here.
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
