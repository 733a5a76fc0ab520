package telemetry

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the page anew")

// meanings are what attributes say: on which spans, and what.
var meanings = map[string][2]string{
	"mcp.method.name":          {"SERVER, CLIENT", "The method of the request."},
	"mcp.session.id":           {"SERVER, CLIENT", "16 hex digits of a digest of the session's id, which itself opens the session. Older revisions only."},
	"mcp.protocol.version":     {"SERVER, CLIENT", "The revision that is spoken with that side."},
	"gen_ai.operation.name":    {"SERVER, CLIENT", "`execute_tool`, of tools/call."},
	"gen_ai.tool.name":         {"SERVER, CLIENT", "The tool: by its published name, and toward a server by the server's own."},
	"gen_ai.prompt.name":       {"SERVER, CLIENT", "The prompt, likewise."},
	"jsonrpc.request.id":       {"SERVER, CLIENT", "The id of the request: the client's, and toward a server ours."},
	"rpc.response.status_code": {"SERVER, CLIENT", "The code of the JSON-RPC error that was answered."},
	"error.type":               {"all", "What went wrong: the code of a JSON-RPC error, `tool_error`, or a [kind of fault](errors.md#kinds). A SERVER span has none where the request itself was wrong (-32700, -32600, -32601, -32602, -32002)."},
	"network.transport":        {"SERVER, CLIENT", "`tcp`, `unix`, or `pipe` of stdio."},
	"network.protocol.name":    {"SERVER, CLIENT", "`http`, where it is spoken."},
	"network.protocol.version": {"SERVER, CLIENT", "Its version: `1.1` or `2`."},
	"client.address":           {"SERVER; CLIENT toward a client", "From where the client is connected."},
	"client.port":              {"SERVER; CLIENT toward a client", "Its port."},
	"server.address":           {"CLIENT", "The host of the server's URL."},
	"server.port":              {"CLIENT", "Its port."},
	"everline.server":          {"all", "The server's name in the configuration."},
	"everline.generation":      {"all", "Its generation: of a SERVER span the one that was sent to last."},
	"everline.outcome":         {"SERVER", "What became of the call: see [outcomes](json.md#outcomes-of-calls)."},
	"everline.sends":           {"SERVER", "How often it was sent."},
	"everline.send":            {"CLIENT", "Which send of its call it is, from 1."},
	"everline.saved":           {"SERVER", "By what the call was saved that had failed without everline: `replay` or `parking`."},
	"everline.state":           {"SERVER", "The state of the server when the call failed."},
	"everline.wait.for":        {"`everline.wait`", "What was waited for: `generation`, `turn` or `rate_limit`."},
}

// The page has every attribute, and no other.
func TestTracesPage(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| attribute | spans | meaning |\n|---|---|---|\n")
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		name, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
		if err != nil || meanings[name][0] == "" {
			t.Errorf("nothing is known of the attribute %s", name)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, meanings[name][0], meanings[name][1])
		n++
		return true
	})
	if n != len(meanings) {
		t.Errorf("%d attributes, and %d that are described", n, len(meanings))
	}
	const path, mark = "../../docs/reference/traces.md", "<!-- the table is generated -->\n\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(page), mark)
	want := before + mark + b.String()
	if *rewrite {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("%s is not as the code has it: make golden", path)
	}
}
