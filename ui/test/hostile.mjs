// A text that would run, and one that hides, if the page let it; and a tool of them.
export const hostile = '<img src=x onerror=alert(1)><script>alert(2)</script>\u202egnp.exe\u200b';
export const tool = {
  name: 'evil', title: hostile, description: hostile + 'x'.repeat(1e6), annotations: {readOnlyHint: true},
  inputSchema: {type: 'object', properties: {[hostile]: {type: 'string', description: hostile}, pick: {enum: [hostile]}}},
};
