package mcptest

import "strings"

// Unreadable are answers to request %d that cannot be used, and what is said.
var Unreadable = map[string]struct{ Answer, Says string }{
	"NaN":               {`{"jsonrpc":"2.0","id":%d,"result":{"structuredContent":{"v":NaN}}}`, "the answer is not JSON: "},
	"Infinity, id last": {`{"jsonrpc":"2.0","result":{"id":99,"v":-Infinity},"id":%d}`, "the answer is not JSON: "},
	"truncated":         {`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"te`, "the answer is not JSON: unexpected end at byte "},
	"string id":         {`{"jsonrpc":"2.0","id":"%d","result":{"v":undefined}}`, "the answer is not JSON: "},
	"an error":          {`{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":'no'}}`, "the answer is not JSON: "},
	"text behind":       {`{"jsonrpc":"2.0","id":%d,"result":{}} done`, "the answer is not JSON: text after the message at byte "},
	"a batch":           {`[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":%d,"result":{"v":NaN}}]`, "the answer is not JSON: "},
	"long":              {`{"jsonrpc":"2.0","id":%d,"result":{"t":"` + strings.Repeat("x", 600<<10) + `","v":NaN}}`, "the answer is not JSON: "},
	"bad escape":        {`{"jsonrpc":"2.0","id":%d,"result":{"t":"\q"}}`, "the answer is not JSON: "},
	"neither":           {`{"jsonrpc":"2.0","id":%d}`, "the answer has neither a result nor an error"},
}
