// A scripted MCP server on stdio. Its arguments are JSON: tools, and exit for one
// that fails at its start.
import {createInterface} from 'node:readline';

const script = JSON.parse(process.argv[2] || '{}');
if (script.exit) {
  process.stderr.write(script.exit + '\n');
  process.exit(1);
}
const tools = script.tools || [{name: 'query', description: 'Runs a query', inputSchema: {type: 'object', properties: {sql: {type: 'string'}}}, annotations: {readOnlyHint: true}}];
const say = (m) => process.stdout.write(JSON.stringify({jsonrpc: '2.0', ...m}) + '\n');
process.stderr.write((script.stderr || 'ready') + '\n');
createInterface({input: process.stdin}).on('line', (line) => {
  const m = JSON.parse(line);
  switch (m.method) {
    case 'initialize': return say({id: m.id, result: {protocolVersion: '2025-11-25', capabilities: {tools: {listChanged: true}}, serverInfo: {name: 'scripted', version: '1'}}});
    case 'tools/list': return say({id: m.id, result: {tools}});
    case 'ping': return say({id: m.id, result: {}});
    case 'tools/call': {
      const {name, arguments: args} = m.params;
      if (name === 'slow') { setTimeout(() => say({id: m.id, result: {content: [{type: 'text', text: 'late'}]}}), args.ms || 1000); return; }
      // The raw line, so that a test sees which digits came.
      return say({id: m.id, result: {content: [{type: 'text', text: script.text || line}]}});
    }
    default: if (m.id !== undefined) say({id: m.id, error: {code: -32601, message: 'no such method'}});
  }
});
