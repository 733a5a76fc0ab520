// A client that calls without pause: node restart.mjs KIND TARGET NAME
// (see kinds.mjs). Each call is an idempotent tool, of one server and another in turn, with an id
// of its own, and prints one
// line: {"id", "tries", "ms", "error"}. A call whose connection broke is made
// again, as a client may do with a call that may be repeated; every other
// failure is final. The end of standard input ends it.
import { createInterface } from "node:readline";
import { connect } from "./kinds.mjs";

const [kind, target, name] = process.argv.slice(2);
const names = ["one__work", "two__work"];
// Over HTTP+SSE a client has nothing but its own patience to tell it that the
// answer is lost: the request was accepted before everline was killed.
const patience = kind.endsWith("-sse") ? 3000 : undefined;

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

const call = await connect(kind, target, name, patience);
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
