"""Node.js programs that a function starts have a heap of the function's size, whatever the machine's memory is."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from tests.support.lambda_lab import LambdaLab, zipped

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")

# Returns the heap of a program by every way to start one, and what the function sees of it.
CODE = """
const child = require('node:child_process');
const { promisify } = require('node:util');
const print = "console.log(require('v8').getHeapStatistics().heap_size_limit / 2 ** 20)";
const [node, given] = [process.execPath, ['-e', print]];
exports.handler = async () => {
  const env = { ...process.env };
  const sizes = {
    execSync: child.execSync(`${node} -e "${print}"`),
    execFileSync: child.execFileSync(node, given),
    spawnSync: child.spawnSync(node, given).stdout,
    execFile: (await promisify(child.execFile)(node, given)).stdout,
    exec: (await promisify(child.exec)(`${node} -e "${print}"`, { env })).stdout,
  };
  const shown = Object.fromEntries(Object.entries(sizes).map(([name, size]) => [name, Number(size)]));
  return { shown, options: process.env.NODE_OPTIONS ?? null };
};
"""


def call(lab: LambdaLab, name: str, **settings: Any) -> dict[str, Any]:
    code = {"ZipFile": zipped({"app.js": CODE})}
    lab.create(name, "", Runtime="nodejs22.x", Code=code, Timeout=60, **settings)
    answer = lab.client().invoke(FunctionName=name)
    return json.loads(answer["Payload"].read())


def test_a_program_has_a_heap_within_the_function_s_memory(lab: LambdaLab):
    answer = call(lab, "small", MemorySize=256)
    assert answer["options"] is None
    assert all(90 < size < 128 for size in answer["shown"].values()), answer


def test_a_function_s_own_options_stay(lab: LambdaLab):
    variables = {"NODE_OPTIONS": "--max-old-space-size=200"}
    answer = call(lab, "own", MemorySize=512, Environment={"Variables": variables})
    assert answer["options"] == "--max-old-space-size=200"
    assert all(size > 195 for size in answer["shown"].values()), answer
