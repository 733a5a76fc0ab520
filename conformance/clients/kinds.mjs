// The clients that everline is tried with: connect makes one of a kind, and returns a
// function that makes one call of a tool. Its target is a URL, or for the kinds on stdio a
// command line as JSON. limit is the client's own patience with a call, in milliseconds;
// without it that is the library's.
let target, info, patience;

export function connect(kind, at, name, limit) {
  target = at;
  info = { name, version: "1" };
  patience = limit && { timeout: limit };
  return kinds[kind]();
}

const kinds = {
  "ts1-http": () => ts1("streamableHttp.js", "StreamableHTTPClientTransport", (T) => new T(new URL(target))),
  "ts1-sse": () => ts1("sse.js", "SSEClientTransport", (T) => new T(new URL(target))),
  "ts1-stdio": () => ts1("stdio.js", "StdioClientTransport", (T) => new T(stdio())),
  "ts2-http": () => ts2((m) => new m.StreamableHTTPClientTransport(new URL(target))),
  "ts2-sse": () => ts2((m) => new m.SSEClientTransport(new URL(target))),
  "ts2-stdio": () => ts2(stdio2),
  "ts2-modern-http": () => ts2((m) => new m.StreamableHTTPClientTransport(new URL(target)), modern),
  "ts2-modern-stdio": () => ts2(stdio2, modern),
  supergateway: () =>
    ts1("stdio.js", "StdioClientTransport", (T) =>
      new T({ command: process.execPath, args: ["node_modules/supergateway/dist/index.js", "--streamableHttp", target, "--logLevel", "none"], env: process.env })),
  ai: async () => {
    const { createMCPClient } = await import("@ai-sdk/mcp");
    const client = await createMCPClient({ transport: { type: "http", url: target }, name: info.name });
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

const modern = { versionNegotiation: { mode: "auto" } };

async function stdio2() {
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  return new StdioClientTransport(stdio());
}

async function ts2(open, options) {
  const module = await import("@modelcontextprotocol/client");
  const client = new module.Client(info, options);
  await client.connect(await open(module));
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
