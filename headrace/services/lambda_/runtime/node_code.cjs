// Preloaded into Node.js functions: runs the AWS SDK's modules from what V8 made of them before, which headrace keeps in
// HEADRACE_NODE_CODE. To compile `client-s3` takes a quarter of its import. V8 itself refuses what another version made.
// As a program (node node_code.cjs FILE PACKAGE...), it imports packages and writes that file.
'use strict';
const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');
const vm = require('node:vm');

const isProgram = require.main === module;
const direct = Module.prototype._compile;
// A cache that a user's clouds share: one for each Node.js and each set of packages.
const MOST_FILES = 8;
const scripts = new Map();
let kept;

function stateOf(filename) {
  const { size, mtimeMs } = fs.statSync(filename);
  return `${size} ${mtimeMs}`;
}

// The file: the length of the index, the index, and the modules' parts, to which it points.
function readKept() {
  const { HEADRACE_NODE_CODE: file } = process.env;
  // Another cloud may have deleted it, with those of earlier packages.
  if (file === undefined || !fs.existsSync(file)) return { index: {} };
  const data = fs.readFileSync(file);
  const start = 4 + data.readUInt32LE();
  return { index: JSON.parse(data.toString('utf8', 4, start)), data: data.subarray(start) };
}

// Returns what is kept of a module's present file, or undefined.
function dataOf(filename) {
  kept ??= readKept();
  const [state, start, end] = kept.index[filename] ?? [];
  return state !== undefined && state === stateOf(filename) ? kept.data.subarray(start, end) : undefined;
}

Module.prototype._compile = function compileFromKept(content, filename, format, ...rest) {
  const isUsual = (format ?? 'commonjs') === 'commonjs' && filename.includes('/node_modules/');
  const cachedData = isUsual && !isProgram && !process.sourceMapsEnabled ? dataOf(filename) : undefined;
  // What runs in this way cannot `import()`.
  const isKept = isProgram ? isUsual && !/\bimport\s*\(/.test(content) : cachedData !== undefined;
  if (!isKept) return direct.call(this, content, filename, format, ...rest);
  const script = new vm.Script(Module.wrap(content), { filename, cachedData });
  if (isProgram) scripts.set(filename, script);
  const load = (request) => this.require(request);
  load.resolve = (request, options) => Module._resolveFilename(request, this, false, options);
  load.resolve.paths = (request) => Module._resolveLookupPaths(request, this);
  Object.assign(load, { main: process.mainModule, extensions: Module._extensions, cache: Module._cache });
  const { exports } = this;
  return Reflect.apply(script.runInThisContext(), exports, [exports, load, this, filename, path.dirname(filename)]);
};

function keep(file) {
  const index = {};
  const parts = [];
  let start = 0;
  for (const [filename, script] of scripts) {
    const part = script.createCachedData();
    index[filename] = [stateOf(filename), start, start += part.length];
    parts.push(part);
  }
  const written = Buffer.from(JSON.stringify(index));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(written.length);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  // A reader finds all of it or nothing, after a power failure too.
  const part = `${file}.${process.pid}`;
  fs.writeFileSync(part, Buffer.concat([length, written, ...parts]), { flush: true });
  fs.renameSync(part, file);
}

function forgetOld(folder) {
  const files = fs.readdirSync(folder).map((name) => path.join(folder, name));
  files.sort((a, b) => fs.statSync(b).mtimeMs - fs.statSync(a).mtimeMs);
  for (const file of files.slice(MOST_FILES)) fs.rmSync(file, { force: true });
}

if (isProgram) {
  const [file, ...packages] = process.argv.slice(2);
  for (const name of packages) require(name);
  // After they ran, V8 keeps the functions that were called, too.
  keep(file);
  forgetOld(path.dirname(file));
}
