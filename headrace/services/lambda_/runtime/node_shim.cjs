// Preloaded into Node.js functions. CDK's custom-resource handlers answer CloudFormation with
// https.request({hostname, path}): they drop the scheme and the port of ResponseURL. When the answer is for this
// cloud, which speaks plain HTTP on its own port, the request is sent there; every other request is left alone.
'use strict';
const http = require('node:http');
const https = require('node:https');
const { syncBuiltinESMExports } = require('node:module');

const RESPONSE_PATH = '/_headrace/cfn-response/';
const endpoint = new URL(process.env.AWS_ENDPOINT_URL);
const direct = https.request;

https.request = function request(options, ...rest) {
  const host = options?.hostname ?? options?.host;
  const path = options?.pathname ?? options?.path ?? '';
  if (host !== endpoint.hostname || !path.startsWith(RESPONSE_PATH)) {
    return direct.call(https, options, ...rest);
  }
  return http.request(
    { method: options.method, headers: options.headers, host, path: options.path ?? path, port: endpoint.port },
    ...rest,
  );
};
syncBuiltinESMExports();
