// What opensearch-js asks of a domain: node opensearch.mjs ENDPOINT; prints what it saw as JSON.
import { Client } from "@opensearch-project/opensearch";

const client = new Client({ node: process.argv[2] });
const seen = {};

await client.indices.create({
  index: "flights-1",
  body: { aliases: { flights: { is_write_index: true } }, mappings: { properties: { carrier: { type: "keyword" } } } },
});
const lines = [...Array(7).keys()].flatMap((n) => [{ index: { _id: String(n) } }, { carrier: n % 2 ? "AA" : "UA", n }]);
seen.bulkErrors = (await client.bulk({ index: "flights", body: lines, refresh: true })).body.errors;
seen.refreshed = (await client.indices.refresh()).statusCode;
seen.refreshedIndex = (await client.indices.refresh({ index: "flights" })).statusCode;
seen.flushed = (await client.indices.flush({ index: "flights" })).statusCode;
const updated = await client.update({ index: "flights", id: "1", body: { doc: { late: true } } });
seen.updated = [updated.body.result, updated.body._index];
seen.many = (await client.mget({ index: "flights", body: { ids: ["1", "99"] } })).body.docs.map((doc) => doc.found);
const searches = [{ index: "flights" }, { query: { term: { carrier: "AA" } } }, { index: "nowhere" }, {}];
seen.statuses = (await client.msearch({ body: searches })).body.responses.map((answer) => answer.status);
seen.scrolled = [];
for await (const hit of client.helpers.scrollDocuments({ index: "flights", size: 3, sort: "n", body: {} }))
  seen.scrolled.push(hit.n);
seen.helperBulk = await client.helpers.bulk({
  datasource: [{ n: 100 }, { n: 101 }],
  onDocument: (doc) => ({ index: { _index: "flights", _id: String(doc.n) } }),
});
seen.aliasExists = (await client.indices.existsAlias({ name: "flights" })).body;
await client.indices.updateAliases({
  body: { actions: [{ remove: { index: "flights-1", alias: "flights" } }, { add: { index: "flights-1", alias: "old" } }] },
});
seen.count = (await client.count({ index: "old" })).body.count;
try {
  await client.get({ index: "flights", id: "1" });
} catch (error) {
  seen.error = [error.name, error.statusCode, error.body.error.type];
}
console.log(JSON.stringify(seen));
