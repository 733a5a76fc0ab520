// Lists what everline serves, as strict clients do, and prints one line of JSON
// for each: {"client", "tools", "prompts", "resources", "templates", "called"},
// the names that the client has seen, or {"client", "error"} if it lost a list.
// The first argument is the URL, the others are the tools to be called.
import Ajv from "ajv";
import Ajv2020 from "ajv/dist/2020.js";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as Transport1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { AjvJsonSchemaValidator } from "@modelcontextprotocol/sdk/validation/ajv";
import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from "@modelcontextprotocol/client";

const [url, ...calls] = process.argv.slice(2);
console.warn = () => {}; // formats that a compiler does not know

// lists asks a client made with an SDK.
async function lists(client, transport) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  const { prompts } = await client.listPrompts();
  const { resources } = await client.listResources();
  const { resourceTemplates } = await client.listResourceTemplates();
  const called = [];
  for (const name of calls) {
    const result = await client.callTool({ name, arguments: {} });
    called.push(result.content[0].text);
  }
  // Some clients compile input schemas, too.
  for (const t of tools) new AjvJsonSchemaValidator().getValidator(t.inputSchema);
  await client.close();
  return {
    tools: tools.map((t) => t.name), prompts: prompts.map((p) => p.name), resources: resources.map((r) => r.uri),
    templates: resourceTemplates.map((t) => t.uriTemplate), called,
  };
}

// What follows are the rules of the Python SDK: its JSON parser takes no halves of
// surrogate pairs and 200 levels, its models check types without converting
// texts, its URIs are read as the URL Standard says, and its client checks output
// schemas against their meta-schema.
const rule = {
  text: (v) => typeof v === "string",
  flag: (v) => typeof v === "boolean",
  int: (v) => Number.isInteger(v),
  num: (v) => typeof v === "number",
  dict: (v) => v !== null && typeof v === "object" && !Array.isArray(v),
  uri: (v) => typeof v === "string" && URL.canParse(v),
  oneOf: (...all) => (v) => all.includes(v),
  list: (of) => (v) => Array.isArray(v) && v.every(of),
  model: (fields) => (v) => rule.dict(v) && Object.entries(fields).every(([name, check]) => {
    const required = name.endsWith("!");
    const value = v[required ? name.slice(0, -1) : name];
    return value === undefined || value === null ? !required : check(value);
  }),
};
const { text, flag, int, num, dict, uri, oneOf, list, model } = rule;
const icons = list(model({ "src!": text, mimeType: text, sizes: list(text), theme: oneOf("light", "dark") }));
const named = { "name!": text, title: text, description: text, icons, _meta: dict };
const annotations = model({ audience: list(oneOf("user", "assistant")), priority: (v) => num(v) && v >= 0 && v <= 1 });
const models = {
  tools: model({
    ...named, "inputSchema!": dict, outputSchema: dict, execution: model({ taskSupport: oneOf("forbidden", "optional", "required") }),
    annotations: model({ title: text, readOnlyHint: flag, destructiveHint: flag, idempotentHint: flag, openWorldHint: flag }),
  }),
  prompts: model({ ...named, arguments: list(model({ "name!": text, description: text, required: flag })) }),
  resources: model({ ...named, "uri!": uri, mimeType: text, size: int, annotations }),
  resourceTemplates: model({ ...named, "uriTemplate!": text, mimeType: text, annotations }),
};

function depth(body) {
  let now = 0, most = 0;
  for (const [c] of body.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]]/g)) {
    if (c === "{" || c === "[") most = Math.max(most, ++now);
    if (c === "}" || c === "]") now--;
  }
  return most;
}

async function python() {
  const ask = async (method) => {
    const meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
      "io.modelcontextprotocol/clientInfo": { name: "corpus", version: "1" },
    };
    const response = await fetch(url, {
      method: "POST", body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { _meta: meta } }),
      headers: {
        "Content-Type": "application/json", Accept: "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method,
      },
    });
    const body = new TextDecoder("utf-8", { fatal: true }).decode(await response.arrayBuffer());
    if (/(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]/.test(body) && !JSON.stringify(JSON.parse(body)).isWellFormed()) throw new Error(`${method}: half of a pair`);
    for (const half of JSON.stringify(JSON.parse(body)).matchAll(/\\ud[89a-f]../g)) throw new Error(`${method}: ${half[0]}`);
    if (depth(body) > 127) throw new Error(`${method}: ${depth(body)} levels`);
    const { result } = JSON.parse(body);
    return result;
  };
  const all = {};
  for (const [kind, method] of [["tools", "tools/list"], ["prompts", "prompts/list"], ["resources", "resources/list"], ["resourceTemplates", "resources/templates/list"]]) {
    all[kind] = (await ask(method))[kind];
    for (const item of all[kind]) {
      if (!models[kind](item)) throw new Error(`${method}: ${JSON.stringify(item).slice(0, 500)}`);
    }
  }
  const options = { strict: false, validateFormats: false };
  const [newest, older] = [new Ajv2020(options), new Ajv(options)];
  for (const t of all.tools) {
    for (const schema of [t.inputSchema, t.outputSchema]) {
      const meta = schema?.$schema?.includes("draft-0") ? older : newest;
      if (schema && !meta.validateSchema({ ...schema, $schema: undefined })) {
        throw new Error(`${t.name}: ${meta.errorsText()} in ${JSON.stringify(schema).slice(0, 500)}`);
      }
    }
  }
  return {
    tools: all.tools.map((t) => t.name), prompts: all.prompts.map((p) => p.name), resources: all.resources.map((r) => r.uri),
    templates: all.resourceTemplates.map((t) => t.uriTemplate), called: [],
  };
}

for (const [client, run] of [
  ["typescript 1", () => lists(new Client1({ name: "corpus", version: "1" }), new Transport1(new URL(url)))],
  ["typescript 2", () => lists(new Client2({ name: "corpus", version: "1" }), new Transport2(new URL(url)))],
  ["typescript 2 modern", () => lists(new Client2({ name: "corpus", version: "1" }, { versionNegotiation: { mode: "auto" } }), new Transport2(new URL(url)))],
  ["python", python],
]) {
  try {
    console.log(JSON.stringify({ client, ...(await run()) }));
  } catch (error) {
    console.log(JSON.stringify({ client, error: String(error?.stack ?? error).slice(0, 2000) }));
  }
}
process.exit(0); // whatever a client that failed has left open
