package everline

import (
	"context"
	"encoding/json"

	"github.com/everline/everline/internal/mcp"
)

// A ResourceResult is what reading a resource has answered.
type ResourceResult struct {
	Contents   []Content       // several where the URI stands for several
	Raw        json.RawMessage // the whole result as the server sent it
	Server     string          // which has answered
	Generation uint64          // which generation of it
}

// ReadResource reads a resource by its URI. Waiting and errors are those of
// CallTool; reading is repeated after a loss, as it changes nothing.
func (h *Hub) ReadResource(ctx context.Context, uri string, opts ...CallOption) (*ResourceResult, error) {
	c := &Call{Method: mcp.ResourcesRead, Name: uri}
	raw, by, err := h.typed(ctx, c, struct {
		URI string `json:"uri"`
	}{uri}, opts)
	if err != nil {
		return nil, err
	}
	var w struct{ Contents []json.RawMessage }
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, unreadable(c.Method, by, err)
	}
	r := &ResourceResult{Raw: raw, Server: by.Server, Generation: by.Generation}
	for _, one := range w.Contents {
		r.Contents = append(r.Contents, content(one))
	}
	return r, nil
}

// A PromptResult is a prompt with its arguments filled in.
type PromptResult struct {
	Description string
	Messages    []PromptMessage
	Raw         json.RawMessage // the whole result as the server sent it
	Server      string          // which has answered
	Generation  uint64          // which generation of it
}

// A PromptMessage is one message of a prompt.
type PromptMessage struct {
	Role    string // user or assistant
	Content Content
}

// GetPrompt fills in a prompt, by its published name. Waiting and errors are
// those of CallTool; it is repeated after a loss, as it changes nothing.
func (h *Hub) GetPrompt(ctx context.Context, name string, args map[string]string, opts ...CallOption) (*PromptResult, error) {
	c := &Call{Method: mcp.PromptsGet, Name: name}
	raw, by, err := h.typed(ctx, c, struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments,omitempty"`
	}{name, args}, opts)
	if err != nil {
		return nil, err
	}
	var w struct {
		Description string
		Messages    []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, unreadable(c.Method, by, err)
	}
	r := &PromptResult{Description: w.Description, Raw: raw, Server: by.Server, Generation: by.Generation}
	for _, m := range w.Messages {
		r.Messages = append(r.Messages, PromptMessage{m.Role, content(m.Content)})
	}
	return r, nil
}
