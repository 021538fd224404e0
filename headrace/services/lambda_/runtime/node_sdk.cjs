// Preloaded into Node.js functions: finds modules of the AWS SDK, which Lambda's runtimes contain. If a module is neither
// in the function's code, nor in a layer, nor in NODE_PATH, it comes from headrace's cache; headrace installs it there
// first if necessary. This works for `import` as well as for `require`. A function may bring the SDK's version 2, which does
// not know AWS_ENDPOINT_URL and would ask the real AWS: its clients get that address here, unless they name one. Runtimes
// before nodejs18.x contain version 2 (documented); later ones do not, and a function that requires it fails, as on AWS.
'use strict';
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');

const SCOPE = '@aws-sdk/';
const VERSION_2 = 'aws-sdk';
const HAS_VERSION_2 = /_nodejs1[0-6]\.x$/.test(process.env.AWS_EXECUTION_ENV);
const cache = process.env.HEADRACE_SDK_FOLDER;
const direct = Module._resolveFilename;
// Asks headrace and waits for the response, because `require` is synchronous.
const ASK = `
const [host, port, name] = process.argv.slice(1);
require('node:http').get({ host, port, path: '/headrace/sdk/' + name }, (response) => response.pipe(process.stdout));
`;

function install(name) {
  const [host, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(':');
  const env = { PATH: process.env.PATH };
  return execFileSync(process.execPath, ['-e', ASK, host, port, name], { env, encoding: 'utf8' });
}

// Returns the package of the runtime's SDK to which a request belongs, or undefined.
function packageOf(request) {
  const [first, second] = request.split('/');
  if (first === VERSION_2) return HAS_VERSION_2 ? first : undefined;
  return request.startsWith(SCOPE) ? `${first}/${second}` : undefined;
}

function fromCache(request, name, error) {
  const folder = path.join(cache, path.basename(name));
  if (!fs.existsSync(folder)) {
    const reason = install(name);
    if (reason) {
      error.message = `Cannot find module '${request}': ${reason}\n${error.message}`;
      throw error;
    }
  }
  return direct.call(Module, request, null, false, { paths: [folder] });
}

Module._resolveFilename = function resolve(request, parent, ...rest) {
  try {
    return direct.call(this, request, parent, ...rest);
  } catch (error) {
    const name = cache && error.code === 'MODULE_NOT_FOUND' && packageOf(request);
    if (!name) throw error;
    return fromCache(request, name, error);
  }
};

// The file of version 2 that makes the configuration of all clients.
const CONFIGURATION = path.join('node_modules', VERSION_2, 'lib', 'node_loader.js');
const compile = Module.prototype._compile;

Module.prototype._compile = function compileWithEndpoint(content, filename, ...rest) {
  const result = compile.call(this, content, filename, ...rest);
  if (filename.endsWith(CONFIGURATION)) {
    this.exports.config.update({ endpoint: process.env.AWS_ENDPOINT_URL, s3ForcePathStyle: true });
  }
  return result;
};
