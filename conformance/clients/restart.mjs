// A client that calls without pause: node restart.mjs KIND TARGET NAME, where
// TARGET is a URL, or for KIND ts1-stdio a command line as JSON.
// Each call is an idempotent tool, of one server and another in turn, with an id
// of its own, and prints one
// line: {"id", "tries", "ms", "error"}. A call whose connection broke is made
// again, as a client may do with a call that may be repeated; every other
// failure is final. The end of standard input ends it.
import { createInterface } from "node:readline";

const [kind, target, name] = process.argv.slice(2);
const info = { name, version: "1" };
const names = ["one__work", "two__work"];
// Over HTTP+SSE a client has nothing but its own patience to tell it that the
// answer is lost: the request was accepted before everline was killed.
const patience = kind.endsWith("-sse") ? { timeout: 3000 } : undefined;

const kinds = {
  "ts1-http": () => ts1("streamableHttp.js", "StreamableHTTPClientTransport", (T) => new T(new URL(target))),
  "ts1-sse": () => ts1("sse.js", "SSEClientTransport", (T) => new T(new URL(target))),
  "ts1-stdio": () => ts1("stdio.js", "StdioClientTransport", (T) => new T(stdio())),
  "ts2-http": () => ts2((m) => new m.StreamableHTTPClientTransport(new URL(target))),
  "ts2-sse": () => ts2((m) => new m.SSEClientTransport(new URL(target))),
  supergateway: () =>
    ts1("stdio.js", "StdioClientTransport", (T) =>
      new T({ command: process.execPath, args: ["node_modules/supergateway/dist/index.js", "--streamableHttp", target, "--logLevel", "none"], env: process.env })),
  ai: async () => {
    const { createMCPClient } = await import("@ai-sdk/mcp");
    const client = await createMCPClient({ transport: { type: "http", url: target }, name });
    const tools = await client.tools();
    return (name, args) => tools[name].execute(args, { toolCallId: args.id, messages: [] });
  },
  langchain: async () => {
    const { MultiServerMCPClient } = await import("@langchain/mcp-adapters");
    const client = new MultiServerMCPClient({ mcpServers: { everline: { transport: "http", url: target } } });
    const tools = await client.getTools();
    return (name, args) => tools.find((tool) => tool.name === name).invoke(args);
  },
  "mcp-use": async () => {
    const { MCPClient } = await import("mcp-use/client");
    const client = new MCPClient({ mcpServers: { everline: { url: target } } });
    const session = await client.createSession("everline");
    return (name, args) => session.callTool(name, args);
  },
  raw: rawClient,
  // A program for each call: it has no session to lose, and needs one each time.
  inspector: async () => {
    const { execFile } = await import("node:child_process");
    return (name, args) =>
      new Promise((resolve, reject) =>
        execFile(
          process.execPath,
          ["../node_modules/.bin/mcp-inspector", "--cli", target, "--transport", "http", "--method", "tools/call", "--tool-name", name, "--tool-arg", "id=" + args.id],
          { timeout: 20_000 },
          (error, out, text) => (error ? reject(Object.assign(new Error(text || error.message), { code: /ECONN|fetch failed|terminated/.test(text) && "ECONNRESET" })) : resolve(JSON.parse(out))),
        ),
      );
  },
};

function stdio() {
  const [command, ...args] = JSON.parse(target);
  return { command, args, env: process.env };
}

async function ts1(file, transport, open) {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const module = await import("@modelcontextprotocol/sdk/client/" + file);
  const client = new Client(info);
  await client.connect(open(module[transport]));
  return (name, args) => client.callTool({ name, arguments: args }, undefined, patience);
}

async function ts2(open) {
  const module = await import("@modelcontextprotocol/client");
  const client = new module.Client(info);
  await client.connect(open(module));
  return (name, args) => client.callTool({ name, arguments: args }, patience);
}

// rawClient holds on to its session id, and takes 404 for its end.
async function rawClient() {
  let session;
  const post = async (message) => {
    const response = await fetch(target, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...(session && { "mcp-session-id": session }) },
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
    });
    if (!response.ok) throw new Error("HTTP " + response.status + " " + (await response.text()));
    session ??= response.headers.get("mcp-session-id");
    const text = await response.text();
    if (message.id === undefined) return;
    const data = text.startsWith("{") ? text : text.split("\n").filter((line) => line.startsWith("data:")).at(-1)?.slice(5);
    if (!data) throw new TypeError("terminated");
    const answer = JSON.parse(data);
    if (answer.error) throw new Error(JSON.stringify(answer.error));
    return answer.result;
  };
  await post({ id: 0, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: info } });
  await post({ method: "notifications/initialized" });
  let id = 0;
  return (name, args) => post({ id: ++id, method: "tools/call", params: { name, arguments: args } });
}

// broke tells a connection that was lost or refused from an answer: node's
// fetch and sockets have these codes and names, at some depth.
function broke(error) {
  for (let e = error; e; e = e.cause) {
    if (["ECONNREFUSED", "ECONNRESET", "EPIPE", "UND_ERR_SOCKET"].includes(e.code)) return true;
    if (patience && (e.code === -32001 || e.code === "REQUEST_TIMEOUT")) return true;
    if (/fetch failed|terminated|socket hang up|other side closed/.test(e.message ?? "")) return true;
  }
  return false;
}

const call = await kinds[kind]();
console.log(JSON.stringify({ ready: true }));
let open = true;
createInterface({ input: process.stdin }).on("close", () => (open = false));
for (let n = 0; open; n++) {
  const id = name + "-" + n;
  const begun = performance.now();
  let tries = 0;
  let error;
  for (const limit = begun + 30_000; ; ) {
    tries++;
    try {
      const result = await call(names[n % 2], { id: id + "-" + tries });
      error = result?.isError ? JSON.stringify(result) : undefined;
      // What everline itself does not know, a call that may be repeated need not know.
      if (result?._meta?.["everline/outcome"]?.outcome === "unknown") error = Object.assign(new Error(error), { code: "ECONNRESET" });
    } catch (e) {
      error = e;
    }
    if (!(error instanceof Error) || !broke(error) || performance.now() > limit) break;
    await new Promise((done) => setTimeout(done, 20));
  }
  console.log(JSON.stringify({ id, tries, ms: Math.round(performance.now() - begun), error: error && String(error.stack ?? error) }));
  await new Promise((done) => setTimeout(done, 5));
}
process.exit(0);
