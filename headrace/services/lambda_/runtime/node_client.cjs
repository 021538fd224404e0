// A client of the Lambda Runtime API for Node.js: in a loop, gets an invocation, runs the handler, sends the response.
// Handlers may be CommonJS or ES modules, async or with a callback.
// Protocol: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const { register } = require('node:module');
const path = require('node:path');
const { Writable } = require('node:stream');
const { format, types: { isModuleNamespaceObject } } = require('node:util');
const { pathToFileURL } = require('node:url');

const [host, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(':');
const agent = new http.Agent({ keepAlive: true, maxSockets: 1, noDelay: true });
const PREFIX = '/2018-06-01/runtime';
let current;

function call(method, route, body, headers = {}) {
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { 'Content-Length': Buffer.byteLength(body) };
    const options = { host, port, agent, method, path: PREFIX + route, headers: { ...headers, ...length } };
    const request = http.request(options, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('end', () => resolve({ headers: response.headers, body: Buffer.concat(chunks).toString('utf8') }));
      response.on('error', reject);
    });
    request.on('error', reject);
    request.end(body);
  });
}

// console writes in the form of Lambda's own runtime: a line with time, request id and level, or a JSON object.
const METHODS = { trace: 'TRACE', debug: 'DEBUG', log: 'INFO', info: 'INFO', warn: 'WARN', error: 'ERROR' };
const LEVELS = ['TRACE', 'DEBUG', 'INFO', 'WARN', 'ERROR', 'FATAL'];

function textLine(level, args) {
  // Carriage returns keep a message of several lines in one log event.
  const message = format(...args).replaceAll('\n', '\r');
  return `${new Date().toISOString()}\t${current ?? 'undefined'}\t${level}\t${message}\n`;
}

function jsonLine(level, args) {
  const line = { timestamp: new Date().toISOString(), level, requestId: current };
  const [first] = args;
  const plain = args.length === 1 && typeof first === 'object' && !(first instanceof Error);
  line.message = plain ? first : format(...args);
  const error = args.find((arg) => arg instanceof Error);
  if (error !== undefined) {
    const { errorType, errorMessage, trace } = describe(error);
    Object.assign(line, { errorType, errorMessage, stackTrace: trace });
  }
  try {
    return `${JSON.stringify(line)}\n`;
  } catch {
    return `${JSON.stringify({ ...line, message: format(...args) })}\n`;
  }
}

function patchConsole() {
  const isJson = process.env.AWS_LAMBDA_LOG_FORMAT === 'JSON';
  const least = isJson ? LEVELS.indexOf(process.env.AWS_LAMBDA_LOG_LEVEL ?? 'INFO') : 0;
  for (const [method, level] of Object.entries(METHODS)) {
    console[method] = (...args) => {
      if (LEVELS.indexOf(level) < least) return;
      process.stdout.write(isJson ? jsonLine(level, args) : textLine(level, args));
    };
  }
}

// A streamed response: a chunked request; if the function fails, the error is in the trailers.
class AnswerStream extends Writable {
  constructor(requestId) {
    super();
    this.requestId = requestId;
    this.contentType = 'application/octet-stream';
    this.finished = new Promise((resolve) => { this.resolveFinished = resolve; });
  }

  setContentType(contentType) {
    this.contentType = contentType;
  }

  open() {
    if (this.request !== undefined) return this.request;
    this.request = http.request({
      host, port, agent, method: 'POST', path: `${PREFIX}/invocation/${this.requestId}/response`,
      headers: {
        'Content-Type': this.contentType,
        'Lambda-Runtime-Function-Response-Mode': 'streaming',
        'Transfer-Encoding': 'chunked',
        Trailer: 'Lambda-Runtime-Function-Error-Type, Lambda-Runtime-Function-Error-Body',
      },
    }, (response) => {
      response.resume();
      response.on('end', this.resolveFinished);
    });
    this.request.on('error', this.resolveFinished);
    return this.request;
  }

  _write(chunk, encoding, done) {
    const data = typeof chunk === 'string' || Buffer.isBuffer(chunk) || chunk instanceof Uint8Array
      ? chunk : JSON.stringify(chunk);
    if (this.open().write(data, encoding)) done();
    else this.request.once('drain', done);
  }

  _final(done) {
    this.open().end(done);
  }

  fail(error) {
    const described = describe(error);
    this.open().addTrailers({
      'Lambda-Runtime-Function-Error-Type': described.errorType,
      'Lambda-Runtime-Function-Error-Body': Buffer.from(JSON.stringify(described)).toString('base64'),
    });
    this.request.end();
    return this.finished;
  }
}

const STREAMS = Symbol('headrace.streams');
const PRELUDE_TYPE = 'application/vnd.awslambda.http-integration-response';

globalThis.awslambda = {
  streamifyResponse(handler) {
    handler[STREAMS] = true;
    return handler;
  },
  HttpResponseStream: {
    from(stream, metadata) {
      stream.setContentType(PRELUDE_TYPE);
      stream.write(JSON.stringify(metadata));
      stream.write(Buffer.alloc(8));
      return stream;
    },
  },
};

async function serveStream(handler, requestId, event, headers) {
  const stream = new AnswerStream(requestId);
  try {
    await handler(event, stream, contextOf(headers, () => undefined));
    if (!stream.writableEnded) stream.end();
    await stream.finished;
  } catch (error) {
    console.error(`Invoke Error\t${JSON.stringify(describe(error))}`);
    if (stream.request === undefined) await report(`/invocation/${requestId}/error`, error);
    else await stream.fail(error);
  }
}

function describe(error) {
  if (error instanceof Error) {
    return { errorType: error.name, errorMessage: error.message, trace: (error.stack || '').split('\n') };
  }
  return { errorType: typeof error, errorMessage: String(error), trace: [] };
}

function report(route, error) {
  const described = describe(error);
  return call('POST', route, JSON.stringify(described), {
    'Content-Type': 'application/json',
    'Lambda-Runtime-Function-Error-Type': described.errorType,
  });
}

function runtimeError(name, message) {
  const error = new Error(message);
  error.name = name;
  return error;
}

function importModule(file) {
  register(pathToFileURL(path.join(__dirname, 'node_imports.mjs')));
  return import(pathToFileURL(file).href);
}

function isModule(file) {
  if (file.endsWith('.mjs') || file.endsWith('.cjs')) return file.endsWith('.mjs');
  for (let folder = path.dirname(file); ; folder = path.dirname(folder)) {
    const description = path.join(folder, 'package.json');
    if (fs.existsSync(description)) return JSON.parse(fs.readFileSync(description, 'utf8')).type === 'module';
    if (folder === path.dirname(folder)) return false;
  }
}

async function loadModule(base) {
  for (const extension of ['', '.js', '.mjs', '.cjs']) {
    const file = base + extension;
    if (!fs.existsSync(file) || fs.statSync(file).isDirectory()) continue;
    if (isModule(file)) return importModule(file);
    let loaded;
    try {
      loaded = require(file);
    } catch (error) {
      // A newer Node.js took it for an ES module, by its syntax.
      if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
    }
    if (loaded !== undefined && !isModuleNamespaceObject(loaded)) return loaded;
    // Lambda runs Node.js with --no-experimental-detect-module (observed by others).
    throw new SyntaxError('Cannot use import statement outside a module');
  }
  return undefined;
}

async function loadHandler(handler) {
  const folder = path.dirname(handler);
  const [moduleName, ...names] = path.basename(handler).split('.');
  const base = path.resolve(process.env.LAMBDA_TASK_ROOT, folder, moduleName);
  let loaded;
  try {
    loaded = await loadModule(base);
  } catch (error) {
    if (error instanceof SyntaxError) error.name = 'Runtime.UserCodeSyntaxError';
    if (/^(ERR_)?MODULE_NOT_FOUND$/.test(error.code)) error.name = 'Runtime.ImportModuleError';
    throw error;
  }
  if (loaded === undefined) {
    throw runtimeError('Runtime.ImportModuleError', `Error: Cannot find module '${moduleName}'`);
  }
  let found = loaded;
  for (const name of names) found = found?.[name] ?? found?.default?.[name];
  if (typeof found !== 'function') {
    throw runtimeError('Runtime.HandlerNotFound', `${handler} is undefined or not exported`);
  }
  return found;
}

function contextOf(headers, callback) {
  const deadlineMs = Number(headers['lambda-runtime-deadline-ms']);
  const clientContext = headers['lambda-runtime-client-context'];
  return {
    awsRequestId: headers['lambda-runtime-aws-request-id'],
    invokedFunctionArn: headers['lambda-runtime-invoked-function-arn'],
    functionName: process.env.AWS_LAMBDA_FUNCTION_NAME,
    functionVersion: process.env.AWS_LAMBDA_FUNCTION_VERSION,
    memoryLimitInMB: process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE,
    logGroupName: process.env.AWS_LAMBDA_LOG_GROUP_NAME,
    logStreamName: process.env.AWS_LAMBDA_LOG_STREAM_NAME,
    clientContext: clientContext ? JSON.parse(clientContext) : undefined,
    callbackWaitsForEmptyEventLoop: true,
    getRemainingTimeInMillis: () => deadlineMs - Date.now(),
    succeed: (result) => callback(null, result),
    fail: (error) => callback(error),
    done: callback,
  };
}

function run(handler, event, headers) {
  return new Promise((resolve, reject) => {
    const callback = (error, result) => (error ? reject(error) : resolve(result));
    const answer = handler(event, contextOf(headers, callback), callback);
    if (typeof answer?.then === 'function') answer.then(resolve, reject);
    // If a function that is not async and has fewer than three parameters returns a value, that is the response.
    else if (answer !== undefined && handler.length < 3) resolve(answer);
  });
}

async function serve(handler) {
  const { headers, body } = await call('GET', '/invocation/next');
  const requestId = headers['lambda-runtime-aws-request-id'];
  process.env._X_AMZN_TRACE_ID = headers['lambda-runtime-trace-id'] ?? '';
  current = requestId;
  if (handler[STREAMS]) {
    await serveStream(handler, requestId, JSON.parse(body), headers);
    return;
  }
  let answer;
  try {
    const result = await run(handler, JSON.parse(body), headers);
    answer = JSON.stringify(result === undefined ? null : result);
  } catch (error) {
    console.error(`Invoke Error\t${JSON.stringify(describe(error))}`);
    await report(`/invocation/${requestId}/error`, error);
    return;
  }
  await call('POST', `/invocation/${requestId}/response`, answer, { 'Content-Type': 'application/json' });
}

async function die(error) {
  console.error(`Uncaught Exception\t${JSON.stringify(describe(error))}`);
  const route = current === undefined ? '/init/error' : `/invocation/${current}/error`;
  try {
    await report(route, error);
  } finally {
    process.exit(129);
  }
}

async function main() {
  patchConsole();
  process.on('uncaughtException', die);
  process.on('unhandledRejection', (error) => {
    if (error instanceof Error) error.name = 'Runtime.UnhandledPromiseRejection';
    die(error);
  });
  let handler;
  try {
    handler = await loadHandler(process.argv[2]);
  } catch (error) {
    console.error(`Uncaught Exception\t${JSON.stringify(describe(error))}`);
    await report('/init/error', error);
    process.exit(1);
  }
  for (;;) {
    try {
      await serve(handler);
    } catch {
      process.exit(1); // The cloud has ended: the Runtime API does not answer.
    }
  }
}

main();
