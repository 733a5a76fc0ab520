// A scripted MCP server on stdio. Its argument is JSON: its tools; hostile for texts
// that everline would hide if they stood in an argument; ask for what it asks its
// client before it answers; calls for a file that gets a line for each call that is
// executed.
import {appendFileSync} from 'node:fs';
import {createInterface} from 'node:readline';
import {hostile, tool} from './hostile.mjs';

const script = JSON.parse(process.argv[2] || '{}');
const tools = script.hostile ? [tool] : script.tools || [{name: 'query', description: 'Runs a query', inputSchema: {type: 'object', properties: {sql: {type: 'string'}}}, annotations: {readOnlyHint: true}}];
const asking = {};
const say = (m) => process.stdout.write(JSON.stringify({jsonrpc: '2.0', ...m}) + '\n');
process.stderr.write((script.hostile ? hostile : 'ready') + '\n');
createInterface({input: process.stdin}).on('line', (line) => {
  const m = JSON.parse(line);
  if (asking[m.id]) return asking[m.id](m);
  switch (m.method) {
    case 'initialize': return say({id: m.id, result: {protocolVersion: '2025-11-25', capabilities: {tools: {listChanged: true}}, serverInfo: {name: 'scripted', version: '1'}}});
    case 'tools/list': return say({id: m.id, result: {tools}});
    case 'ping': return say({id: m.id, result: {}});
    case 'tools/call': {
      const {name, arguments: args} = m.params;
      if (script.calls) appendFileSync(script.calls, name + '\n');
      if (name === 'slow') { setTimeout(() => say({id: m.id, result: {content: [{type: 'text', text: 'late'}]}}), args.ms || 1000); return; }
      if (script.ask) { // a question first, whose answer is the result
        const id = 'q' + m.id;
        asking[id] = (answer) => { delete asking[id]; say({id: m.id, result: {content: [{type: 'text', text: JSON.stringify(answer.result ?? answer.error)}]}}); };
        return say({id, method: 'elicitation/create', params: script.ask});
      }
      // The raw line, so that a test sees which digits came.
      return say({id: m.id, result: {content: [{type: 'text', text: script.hostile ? hostile : line}]}});
    }
    default: if (m.id !== undefined) say({id: m.id, error: {code: -32601, message: 'no such method'}});
  }
});
