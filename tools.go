package everline

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/rounds"
)

// A Tool is one tool as it was published when it was taken. It stays callable
// over any number of reconnects of its server.
type Tool struct {
	Name         string // the published name, which CallTool takes
	Server       string // the configured server that has it
	Title        string // for people; "" if the server gave none
	Description  string
	InputSchema  json.RawMessage // JSON Schema of the arguments
	OutputSchema json.RawMessage // JSON Schema of the structured content; nil if the server gave none
	Hints        Hints
	Available    bool            // the server was not away; calls of other tools wait for theirs
	Raw          json.RawMessage // the whole definition as the server sent it

	own string // what the server calls it
	hub *Hub
}

// Hints are what a tool claims about itself (2026-07-28 server/tools,
// ToolAnnotations), with the specification's defaults. They are no promise.
type Hints struct {
	ReadOnly    bool // it changes nothing; false by default
	Destructive bool // it may destroy something; true by default
	Idempotent  bool // repeating a call changes nothing more; false by default
	OpenWorld   bool // it deals with an open set of things, such as the web; true by default
}

// Tools yields the tools that are listed now, in the order of the list. It does
// not wait; see Connected for a server that has just been added.
func (h *Hub) Tools() iter.Seq[Tool] {
	return func(yield func(Tool) bool) {
		for l := range h.Catalog().Items(Tools) {
			if !l.Hidden && !yield(h.tool(l)) {
				return
			}
		}
	}
}

// Tool finds one tool by its published name.
func (h *Hub) Tool(name string) (Tool, bool) {
	for l := range h.Catalog().Items(Tools) {
		if l.Exposed == name {
			return h.tool(l), true
		}
	}
	return Tool{}, false
}

func (h *Hub) tool(l Listed) Tool {
	var def struct {
		Title        string
		Description  string
		InputSchema  json.RawMessage
		OutputSchema json.RawMessage
		Annotations  struct {
			Title                          string
			ReadOnlyHint, IdempotentHint   bool
			DestructiveHint, OpenWorldHint *bool
		}
	}
	_ = json.Unmarshal(l.Item.Raw, &def) // what is not as it should be stays zero; Raw has it all
	t := Tool{
		Name: l.Exposed, Server: l.Server, Title: def.Title, Description: def.Description,
		InputSchema: def.InputSchema, OutputSchema: def.OutputSchema, Raw: l.Item.Raw,
		Hints: Hints{
			ReadOnly:    def.Annotations.ReadOnlyHint,
			Idempotent:  def.Annotations.IdempotentHint,
			Destructive: def.Annotations.DestructiveHint == nil || *def.Annotations.DestructiveHint,
			OpenWorld:   def.Annotations.OpenWorldHint == nil || *def.Annotations.OpenWorldHint,
		},
		own: l.Item.Name, hub: h,
	}
	if t.Title == "" {
		t.Title = def.Annotations.Title
	}
	if s := h.fleet.Slot(l.Server); s != nil {
		t.Available = !s.View().Away()
	}
	return t
}

// Call calls the tool, as Hub.CallTool does. It reaches the tool under
// whatever name it is published by then.
func (t Tool) Call(ctx context.Context, args any, opts ...CallOption) (*ToolResult, error) {
	return t.hub.callTool(ctx, &Call{Name: t.own, Server: t.Server}, args, opts)
}

// CallTool calls a tool by its published name. args is nil, raw JSON (a
// json.RawMessage or []byte), or anything that encoding/json turns into an
// object.
//
// While the server is away the call waits for it as long as that can help. A
// result with IsError is the tool's own failure, and no error. Every error is
// a *fault.Fault: its Outcome says whether the call may have run.
func (h *Hub) CallTool(ctx context.Context, name string, args any, opts ...CallOption) (*ToolResult, error) {
	return h.callTool(ctx, &Call{Name: name}, args, opts)
}

func (h *Hub) callTool(ctx context.Context, c *Call, args any, opts []CallOption) (*ToolResult, error) {
	c.Method = mcp.ToolsCall
	arguments, err := object(c.Method, args)
	if err != nil {
		return nil, err
	}
	raw, by, err := h.typed(ctx, c, struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}{c.Name, arguments}, opts)
	if err != nil {
		return nil, err
	}
	r := &ToolResult{Raw: raw, Server: by.Server, Generation: by.Generation}
	var w struct {
		Content           []json.RawMessage
		StructuredContent json.RawMessage
		IsError           bool
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, unreadable(c.Method, by, err)
	}
	r.Structured, r.IsError = w.StructuredContent, w.IsError
	for _, c := range w.Content {
		r.Content = append(r.Content, content(c))
	}
	return r, nil
}

// A ToolResult is what a tool has answered.
type ToolResult struct {
	Content    []Content
	Structured json.RawMessage // structuredContent; nil if there is none
	IsError    bool            // the tool failed; Text says why
	Raw        json.RawMessage // the whole result as the server sent it
	Server     string          // which has answered
	Generation uint64          // which generation of it
}

// Text joins the texts of the content with newlines.
func (r *ToolResult) Text() string {
	var texts []string
	for _, c := range r.Content {
		if c.Type == "text" {
			texts = append(texts, c.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Content is one block of content: of a tool's result, a prompt's message or a
// resource. What a field does not hold is in Raw.
type Content struct {
	Type     string // text, image, audio, resource, resource_link, or what the server says; "" in a resource's contents
	Text     string
	Data     []byte // of an image, audio, or a resource that is no text
	MIMEType string
	URI      string // of a resource or a link to one
	Raw      json.RawMessage
}

func content(raw json.RawMessage) Content {
	type fields struct {
		Type, Text, MimeType, URI string
		Data, Blob                []byte
	}
	var w struct {
		fields
		Resource fields
	}
	_ = json.Unmarshal(raw, &w) // what is not as it should be stays zero; Raw has it all
	f := w.fields
	if f.Type == "resource" {
		f = w.Resource
		f.Type = "resource"
	}
	c := Content{Type: f.Type, Text: f.Text, Data: f.Data, MIMEType: f.MimeType, URI: f.URI, Raw: raw}
	if c.Data == nil {
		c.Data = f.Blob
	}
	return c
}

// A CallOption changes a call before it is made. Any func(*Call) is one.
type CallOption func(*Call)

// AskedBy lets a client serve what the server asks for during the call
// (elicitation, sampling, roots), in both eras, and hear what it logs.
// Modern servers are told that the client serves all of these; a client that
// has a method
//
//	Capabilities() []byte // a raw ClientCapabilities object
//
// says it itself.
func AskedBy(client Client) CallOption {
	return func(c *Call) {
		c.Client = client
		c.Capabilities = []byte(`{"elicitation":{},"sampling":{},"roots":{}}`)
		if own, ok := client.(interface{ Capabilities() []byte }); ok {
			c.Capabilities = own.Capabilities()
		}
	}
}

// WithProgress hands the params of each progress notification to fn, in order;
// fn must not block.
func WithProgress(fn func(params []byte)) CallOption {
	return func(c *Call) { c.Progress = fn }
}

// typed makes a call whose params are a Go value, with the rounds of input
// that a modern server may ask for.
func (h *Hub) typed(ctx context.Context, c *Call, params any, opts []CallOption) (json.RawMessage, Answer, error) {
	var by Answer
	text, err := json.Marshal(params)
	if err != nil {
		return nil, by, invalid(c.Method, "the params are not JSON: "+err.Error())
	}
	c.Params = text
	for _, change := range opts {
		change(c)
	}
	if c.Progress != nil {
		c.Params = withToken(c.Params)
	}
	send := func(ctx context.Context, params []byte) ([]byte, error) {
		again := *c
		again.Params = params
		answer, err := h.Do(ctx, &again)
		by = answer
		return answer.Result, err
	}
	raw, err := rounds.Do(ctx, c.Method, c.Params, send, func(ctx context.Context, method string, params []byte) ([]byte, error) {
		if c.Client == nil {
			return nil, fault.New(fault.Unsupported, method, "nobody serves "+method+" for this call")
		}
		return c.Client.Ask(ctx, method, params)
	})
	if err != nil {
		return nil, by, fault.From(c.Method, err)
	}
	return raw, by, nil
}

// withToken asks for progress; the token is replaced on the way to the server.
func withToken(params []byte) []byte {
	return append(params[:len(params)-1:len(params)-1], `,"_meta":{"progressToken":1}}`...)
}

// object is a value as a raw JSON object.
func object(op string, v any) (json.RawMessage, error) {
	if v == nil {
		return json.RawMessage(`{}`), nil
	}
	var raw []byte
	switch v := v.(type) {
	case []byte:
		raw = v
	default:
		var err error
		if raw, err = json.Marshal(v); err != nil {
			return nil, invalid(op, "the arguments are not JSON: "+err.Error())
		}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, invalid(op, "the arguments are no JSON object: "+clip(raw))
	}
	return raw, nil
}

func clip(raw []byte) string {
	const most = 60
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}

func invalid(op, text string) *fault.Fault {
	f := fault.New(fault.Invalid, op, text)
	f.Outcome = fault.NotSent
	return f
}

// unreadable is the fault of an answer that is JSON and not what the method
// answers.
func unreadable(op string, by Answer, err error) *fault.Fault {
	return &fault.Fault{Kind: fault.Protocol, Op: op, Server: by.Server, Gen: by.Generation, Outcome: fault.Answered, Err: err}
}
