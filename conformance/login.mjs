// A client that logs in, made with one of the two TypeScript SDKs: "sdk" or "client".
// It connects to URL, prints {"open": …} where a browser is needed, then the names of
// the tools, and makes one call per line of standard input, as client.mjs does.
import { createServer } from "node:http";
import { createInterface } from "node:readline";

const [which, url] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = which === "client"
  ? await import("@modelcontextprotocol/client")
  : {
      ...(await import("@modelcontextprotocol/sdk/client/index.js")),
      ...(await import("@modelcontextprotocol/sdk/client/streamableHttp.js")),
      ...(await import("@modelcontextprotocol/sdk/client/auth.js")),
    };

const input = createInterface({ input: process.stdin });
const calls = input[Symbol.asyncIterator]();
let connected = false;
input.once("close", () => connected || process.exit(1)); // nobody waits any more
const say = (line) => console.log(JSON.stringify(line));
const callback = createServer();
const redirected = new Promise((resolve) => callback.on("request", (req, res) => {
  const at = new URL(req.url, "http://127.0.0.1");
  res.end("back");
  if (at.searchParams.has("code")) resolve(at.searchParams);
}));
await new Promise((resolve) => callback.listen(0, "127.0.0.1", resolve));
const redirectUrl = `http://127.0.0.1:${callback.address().port}/callback`;

const kept = {};
const authProvider = {
  redirectUrl,
  clientMetadata: {
    client_name: "interop", redirect_uris: [redirectUrl], grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"], token_endpoint_auth_method: "none",
  },
  state: () => "state-of-" + which,
  clientInformation: () => kept.client,
  saveClientInformation: (c) => { kept.client = c; },
  tokens: () => kept.tokens,
  saveTokens: (t) => { kept.tokens = t; },
  redirectToAuthorization: (to) => say({ open: String(to) }),
  saveCodeVerifier: (v) => { kept.verifier = v; },
  codeVerifier: () => kept.verifier,
};

const client = new Client({ name: "interop", version: "1" });
let transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
try {
  await client.connect(transport);
  throw new Error("came in without a login");
} catch (e) {
  if (!(e instanceof UnauthorizedError)) throw e;
  const answer = await redirected;
  if (answer.get("state") !== "state-of-" + which) throw new Error("another state");
  // The newer SDK checks the issuer of the answer, too (RFC 9207).
  await (which === "client" ? transport.finishAuth(answer) : transport.finishAuth(answer.get("code")));
}
callback.close();
transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
await client.connect(transport);
connected = true;
const { tools } = await client.listTools();
say(tools.map((t) => t.name));
for await (const line of { [Symbol.asyncIterator]: () => calls }) {
  try {
    say(await client.callTool(JSON.parse(line)));
  } catch (e) {
    say({ error: e.message });
  }
}
await client.close();
