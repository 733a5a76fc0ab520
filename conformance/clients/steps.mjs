// A client that calls when it is told to: node steps.mjs KIND TARGET (see kinds.mjs).
// Each line of standard input is a call, {"name", "arguments"}, and each has a line
// of output: {"error"}, empty if the tool has answered. The end of standard input ends it.
import { createInterface } from "node:readline";
import { connect } from "./kinds.mjs";

const [kind, target] = process.argv.slice(2);
const call = await connect(kind, target, kind, 10_000);
console.log(JSON.stringify({ ready: true }));
for await (const line of createInterface({ input: process.stdin })) {
  const { name, arguments: args } = JSON.parse(line);
  let error = "";
  try {
    const result = await call(name, args);
    if (result?.isError) error = JSON.stringify(result);
  } catch (e) {
    error = String(e);
  }
  console.log(JSON.stringify({ error }));
}
process.exit(0);
