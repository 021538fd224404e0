// Registered where a handler is an ES module: what Node.js does not find for an `import` is looked for as `require` does,
// which knows NODE_PATH, where layers and Lambda's runtime have their modules.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
// Hooks run on a thread of their own, which has preloaded nothing.
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
