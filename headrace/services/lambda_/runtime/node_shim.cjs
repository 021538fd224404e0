// Preloaded into Node.js functions. CDK's custom-resource handlers answer CloudFormation with
// https.request({hostname, path}): they drop the port of ResponseURL, which on AWS has none. When the answer is for
// this cloud, whose port also speaks TLS, the port is added; every other request is left alone. Handlers that give
// `url.host` as the host give its port with it, which Node would take for a part of the name.
// This process trusts the authorities in SSL_CERT_FILE, which OpenSSL reads when it needs them; the function and its own
// Node.js processes find them by NODE_EXTRA_CA_CERTS, which would take most of the time of this process's start.
// A Node.js program that a function starts sizes its heap by the machine's memory: on AWS that is little more than the
// function's, here it is the developer's. So it gets a heap of the function's size (assumed: 3/8 of it, in which npm
// installs a package of the SDK within 128 MB, as it does on AWS for the CDK's AwsCustomResource).
'use strict';
const childProcess = require('node:child_process');
const https = require('node:https');
const { syncBuiltinESMExports } = require('node:module');

if (process.execArgv.includes('--use-openssl-ca')) {
  process.env.NODE_EXTRA_CA_CERTS ??= process.env.SSL_CERT_FILE;
}

const memoryMb = Number(process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE);
if (memoryMb < 1024 && !process.env.NODE_OPTIONS) {
  const limits = `--max-semi-space-size=1 --max-old-space-size=${Math.floor((memoryMb * 3) / 8)}`;
  const { spawn } = childProcess.ChildProcess.prototype;
  childProcess.ChildProcess.prototype.spawn = function spawnWithLimits(options) {
    if (!options.envPairs?.some((pair) => pair.startsWith('NODE_OPTIONS='))) {
      options.envPairs = [...(options.envPairs ?? []), `NODE_OPTIONS=${limits}`];
    }
    return spawn.call(this, options);
  };
  for (const name of ['execSync', 'execFileSync', 'spawnSync']) {
    const direct = childProcess[name];
    childProcess[name] = (...given) => {
      process.env.NODE_OPTIONS = limits; // a call without an environment of its own copies this one
      try {
        return direct(...given);
      } finally {
        delete process.env.NODE_OPTIONS;
      }
    };
  }
}

const RESPONSE_PATH = '/_headrace/cfn-response/';
const endpoint = new URL(process.env.AWS_ENDPOINT_URL);
const OWN = { host: endpoint.hostname, hostname: endpoint.hostname, port: endpoint.port };

// The arguments are (options), (url) or (url, options), where a url is a text or a URL; a callback may follow.
const withPort = ([first, ...rest]) => {
  const url = typeof first === 'string' ? new URL(first) : first;
  const options = url instanceof URL && rest[0] !== null && typeof rest[0] === 'object' ? rest[0] : {};
  const host = options.hostname ?? options.host ?? url?.hostname ?? url?.host;
  const path = options.path ?? url?.pathname ?? url?.path ?? '';
  const port = String(options.port || url?.port || 443);
  const isOurs = [endpoint.hostname, endpoint.host].includes(host) && ['443', endpoint.port].includes(port);
  if (!isOurs || !String(path).startsWith(RESPONSE_PATH)) return [first, ...rest];
  if (!(url instanceof URL)) return [{ ...url, ...OWN }, ...rest];
  const address = new URL(url);
  address.port = endpoint.port;
  return options === rest[0] ? [address, { ...options, ...OWN }, ...rest.slice(1)] : [address, ...rest];
};

for (const name of ['request', 'get']) {
  const direct = https[name];
  https[name] = (...given) => direct.apply(https, withPort(given));
}
syncBuiltinESMExports();
