package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/everline/everline/internal/mcp"
)

// A lister names the tools that clients see.
type lister interface {
	names(context.Context) ([]string, error)
	close()
}

// openList lists as an MCP client of the endpoint. Where there is none, or it
// does not let us in, the admin API says what is published.
func openList(ctx context.Context, o Options) (list lister, via string) {
	if o.Endpoint != "" {
		c := &mcpClient{url: o.Endpoint, http: &http.Client{Transport: &http.Transport{}}}
		if c.open(ctx) == nil {
			return c, "endpoint"
		}
		c.close()
	}
	return adminList{o}, "admin"
}

type adminList struct{ opts Options }

func (l adminList) names(ctx context.Context) ([]string, error) {
	tools, err := l.opts.Client.Tools(ctx)
	var names []string
	for _, t := range tools {
		if !t.Hidden {
			names = append(names, t.Name)
		}
	}
	return names, err
}

func (adminList) close() {}

// An mcpClient is a client of the endpoint over Streamable HTTP (specification
// 2025-06-18, basic/transports). It lists, and knows nothing else. One
// goroutine at a time may use it.
type mcpClient struct {
	url     string
	http    *http.Client
	session string
	next    int
}

const protocolVersion = "2025-06-18"

func (c *mcpClient) open(ctx context.Context) error {
	params := `{"protocolVersion":"` + protocolVersion + `","capabilities":{},"clientInfo":{"name":"everline drill","version":"1"}}`
	if _, err := c.ask(ctx, mcp.Initialize, params); err != nil {
		return err
	}
	resp, err := c.post(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (c *mcpClient) names(ctx context.Context) ([]string, error) {
	result, err := c.ask(ctx, "tools/list", `{}`)
	if err != nil {
		return nil, err
	}
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(result, &list); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoList, err)
	}
	var names []string
	for _, t := range list.Tools {
		names = append(names, t.Name)
	}
	return names, nil
}

// ask sends one request and returns its result.
func (c *mcpClient) ask(ctx context.Context, method, params string) (json.RawMessage, error) {
	c.next++
	resp, err := c.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.next, method, params))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if id := resp.Header.Get(mcp.HeaderSession); id != "" {
		c.session = id
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), mcp.TypeEvents) {
		body = mcp.LastMessage(body)
	}
	var msg struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	switch err := json.Unmarshal(body, &msg); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoList, err)
	case msg.Error != nil:
		return nil, errors.New(msg.Error.Message)
	}
	return msg.Result, nil
}

func (c *mcpClient) post(ctx context.Context, frame string) (*http.Response, error) {
	req, err := c.request(ctx, http.MethodPost, strings.NewReader(frame))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", mcp.TypeJSON)
	req.Header.Set("Accept", mcp.AcceptBoth)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		resp.Body.Close()
		return nil, fmt.Errorf("%w: HTTP %d", errNoList, resp.StatusCode)
	}
	return resp, nil
}

func (c *mcpClient) request(ctx context.Context, method string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url, body)
	if err == nil && c.session != "" {
		req.Header.Set(mcp.HeaderSession, c.session)
		req.Header.Set(mcp.HeaderVersion, protocolVersion)
	}
	return req, err
}

// close ends the session.
func (c *mcpClient) close() {
	ctx, cancel := context.WithTimeout(context.Background(), listLimit)
	defer cancel()
	if req, err := c.request(ctx, http.MethodDelete, nil); err == nil && c.session != "" {
		if resp, err := c.http.Do(req); err == nil {
			resp.Body.Close()
		}
	}
	c.http.CloseIdleConnections()
}
