package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// A client is one ordinary MCP client of the endpoint: legacy era, Streamable
// HTTP. It knows nothing of everline but the URL.
type client struct {
	url     string
	http    *http.Client
	session string
	next    atomic.Int64
}

func dial(ctx context.Context, url string) (*client, error) {
	c := &client{url: url, http: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}}
	_, err := c.call(ctx, "initialize", []byte(`{"protocolVersion":"`+protocol+`","capabilities":{},"clientInfo":{"name":"demo","version":"1"}}`))
	if err != nil {
		return nil, err
	}
	_, err = c.post(ctx, wire.AppendNotification(nil, mcp.NotifyInitialized, nil))
	return c, err
}

// call returns the raw result of one request.
func (c *client) call(ctx context.Context, method string, params []byte) ([]byte, error) {
	body, err := c.post(ctx, wire.AppendRequest(nil, c.next.Add(1), method, params))
	if err != nil {
		return nil, err
	}
	m, err := wire.Parse(body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer is not JSON-RPC: %w", err)
	case m.Error != nil:
		code, text := wire.DecodeError(m.Error)
		return nil, fmt.Errorf("error %d: %s", code, text)
	default:
		return m.Result, nil
	}
}

func (c *client) post(ctx context.Context, frame []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(frame))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", mcp.TypeJSON)
	req.Header.Set("Accept", mcp.AcceptBoth)
	if c.session != "" {
		req.Header.Set(mcp.HeaderSession, c.session)
		req.Header.Set(mcp.HeaderVersion, protocol)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode/100 != 2:
		return nil, fmt.Errorf("HTTP %d: %s", resp.StatusCode, body)
	}
	if id := resp.Header.Get(mcp.HeaderSession); id != "" && c.session == "" {
		c.session = id
	}
	return unwrap(resp.Header.Get("Content-Type"), body), nil
}

// unwrap takes the one message out of an event stream.
func unwrap(contentType string, body []byte) []byte {
	if contentType != mcp.TypeEvents {
		return body
	}
	return mcp.LastMessage(body)
}

// toolParams are the params of one tools/call.
func toolParams(tool, id string) []byte {
	return []byte(`{"name":` + strconv.Quote(tool) + `,"arguments":{"id":` + strconv.Quote(id) + `}}`)
}
