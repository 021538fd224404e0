// Module hooks for handlers that are ES modules: if Node.js does not find an imported module, look for it as `require`
// does, in NODE_PATH, which has the modules of layers and of Lambda's runtime.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
// Hooks run on a thread of their own, in which node_sdk.cjs is not preloaded.
import './node_sdk.cjs';

export async function resolve(specifier, context, next) {
  try {
    return await next(specifier, context);
  } catch (error) {
    const isBare = !/^(\.|\/|[a-z]+:)/.test(specifier);
    if (error.code !== 'ERR_MODULE_NOT_FOUND' || !isBare) throw error;
    const require = createRequire(context.parentURL ?? import.meta.url);
    let found;
    try {
      found = require.resolve(specifier);
    } catch (missing) {
      error.message = `${error.message}\n${missing.message}`;
      throw error;
    }
    return { url: pathToFileURL(found).href, shortCircuit: true };
  }
}
