package catalog

import (
	"encoding/json"
	"errors"
	"strings"
)

// The two tools that stand for all others where a catalog is too big to list.
const (
	SearchTool = "search_tools"
	CallTool   = "call_tool"
)

const (
	foundDefault = 10
	foundMost    = 50
	serversShown = 40
)

// SearchTools are the definitions of the two tools, for a catalog of these
// servers.
func SearchTools(servers []string) []Item {
	shown := strings.Join(servers[:min(len(servers), serversShown)], ", ")
	if len(servers) > serversShown {
		shown += ", and more"
	}
	search := `{"name":"` + SearchTool + `","title":"Search tools","description":` +
		string(quote("Finds tools by what they do. Returns the definitions of the best matches, one per line; call one with "+CallTool+". The tools are those of these servers: "+shown+".")) +
		`,"inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"What the tool should do, in a few words, or its name"},` +
		`"limit":{"type":"integer","minimum":1,"maximum":50,"description":"How many tools to return at most; 10 by default"}},"required":["query"]},` +
		`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`
	call := `{"name":"` + CallTool + `","title":"Call a tool","description":"Calls a tool that ` + SearchTool + ` has found and returns its result.",` +
		`"inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"The tool's name, as ` + SearchTool + ` gives it"},` +
		`"arguments":{"type":"object","description":"The tool's arguments, as its inputSchema asks for"}},"required":["name"]}}`
	return []Item{
		{Name: SearchTool, Raw: []byte(search), Hints: Hints{ReadOnly: true}},
		{Name: CallTool, Raw: []byte(call)},
	}
}

// ReadSearch reads the params of a call of SearchTool. Its errors are for the
// model that made it.
func ReadSearch(params []byte) (query string, limit int, err error) {
	var p struct {
		Arguments struct {
			Query string   `json:"query"`
			Limit *float64 `json:"limit"`
		} `json:"arguments"`
	}
	if err := json.Unmarshal(params, &p); err != nil || strings.TrimSpace(p.Arguments.Query) == "" {
		return "", 0, errors.New(`the arguments must be {"query": "what the tool should do"}, with a number as "limit" if any`)
	}
	limit = foundDefault
	if p.Arguments.Limit != nil {
		limit = int(min(max(*p.Arguments.Limit, 1), foundMost))
	}
	return p.Arguments.Query, limit, nil
}

// ReadCall reads the params of a call of CallTool: which tool is meant, and
// the params of its call, with everything but name and arguments kept. Its
// errors are for the model that made it.
func ReadCall(params []byte) (name string, inner []byte, err error) {
	bad := errors.New(`the arguments must be {"name": "a tool's name", "arguments": {}}`)
	if !json.Valid(params) {
		return "", nil, bad
	}
	o, ok := parseObject(params)
	if !ok {
		return "", nil, bad
	}
	outer, ok := parseObject(o.get("arguments"))
	if !ok {
		return "", nil, bad
	}
	arguments := outer.get("arguments")
	if arguments == nil || kindOf(arguments) == 'n' {
		arguments = []byte("{}")
	}
	if name = text(outer.get("name")); name == "" || kindOf(arguments) != '{' {
		return "", nil, bad
	}
	o.set("name", quote(name))
	o.set("arguments", arguments)
	return name, o.bytes(), nil
}

// Text is a tool result of one text, for a model.
func Text(s string, isError bool) []byte {
	b := append([]byte(`{"content":[{"type":"text","text":`), quote(s)...)
	b = append(b, `}]`...)
	if isError {
		b = append(b, `,"isError":true`...)
	}
	return append(b, '}')
}
