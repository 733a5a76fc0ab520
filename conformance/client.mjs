// A client made with the TypeScript SDK: connects to the URL that is its
// first argument, then makes one call per line of standard input, {"name",
// "arguments"}, and prints one line of JSON per answer. The first line that
// it prints is the list of tool names.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const client = new Client({ name: "interop", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const { tools } = await client.listTools();
console.log(JSON.stringify(tools.map((t) => t.name)));
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await client.callTool(JSON.parse(line))));
}
await client.close();
