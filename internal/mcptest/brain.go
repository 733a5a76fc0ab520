package mcptest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/internal/mcp"
)

var (
	listMethods = []string{mcp.ToolsList, mcp.PromptsList, mcp.ResourcesList, mcp.ResourcesTemplatesList}
	listMembers = []string{"tools", "prompts", "resources", "resourceTemplates"}
)

// envelope is any JSON-RPC message.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// handle finds the reply to one request: a scripted one or the server's own.
func (s *Server) handle(ctx context.Context, r *Request) Reply {
	scripted, ok := s.scripted(r)
	if !ok {
		return s.own(ctx, r)
	}
	if scripted.Run {
		own := s.own(ctx, r)
		if scripted.Result == "" && scripted.Error == "" && scripted.Raw == "" && scripted.Status == 0 {
			scripted.Result, scripted.Error = own.Result, own.Error
		}
	}
	s.pause(ctx, scripted.Delay)
	if scripted.Result == "" && scripted.Error == "" && scripted.Raw == "" && scripted.Status == 0 &&
		!scripted.Hang && !scripted.Cut && !scripted.Exit {
		own := s.own(ctx, r)
		scripted.Result, scripted.Error = own.Result, own.Error
	}
	return scripted
}

func (s *Server) scripted(r *Request) (Reply, bool) {
	s.mu.Lock()
	s.counts[r.Method]++
	r.At = time.Now()
	s.requests = append(s.requests, *r)
	s.changedLocked()
	queue, on := s.next[r.Method], s.on[r.Method]
	if len(queue) > 0 {
		s.next[r.Method] = queue[1:]
	}
	s.mu.Unlock()
	s.journal("request " + r.Method)
	if len(queue) > 0 {
		return queue[0], true
	}
	if on != nil {
		if rep := on(r); rep != nil {
			return *rep, true
		}
	}
	return Reply{}, false
}

// pause waits for d, the end of the exchange, or Close.
func (s *Server) pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-s.done:
	}
}

// modernCall reports whether a request names its protocol version itself.
func modernCall(params json.RawMessage) (version string, ok bool) {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil {
		return "", false
	}
	raw, ok := p.Meta[mcp.MetaVersion]
	_ = json.Unmarshal(raw, &version)
	return version, ok
}

// own is the server's own answer.
func (s *Server) own(ctx context.Context, r *Request) Reply {
	version, modern := modernCall(r.Params)
	switch {
	case modern && s.cfg.Era == Legacy:
		if r.Method == mcp.ServerDiscover {
			return rpcError(mcp.CodeMethodNotFound, "Method not found")
		}
	case modern && !slices.Contains(s.cfg.Versions, version):
		return s.badVersion(version)
	case !modern && s.cfg.Era == Modern:
		return s.badVersion("")
	}
	rep := s.dispatch(ctx, r)
	if modern && s.cfg.Era != Legacy {
		rep = s.stamp(r.Method, rep)
	}
	return rep
}

func rpcError(code int, text string) Reply {
	quoted, _ := json.Marshal(text)
	return Reply{Error: `{"code":` + strconv.Itoa(code) + `,"message":` + string(quoted) + `}`}
}

func (s *Server) badVersion(asked string) Reply {
	supported, _ := json.Marshal(s.cfg.Versions)
	requested, _ := json.Marshal(asked)
	rep := Reply{Error: `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":` +
		string(supported) + `,"requested":` + string(requested) + `}}`}
	rep.Status = 400
	return rep
}

// stamp adds what every modern result carries.
func (s *Server) stamp(method string, rep Reply) Reply {
	if rep.Error != "" && strings.Contains(rep.Error, "-32601") {
		rep.Status = 404
	}
	if rep.Result == "" || strings.Contains(rep.Result, `"resultType"`) {
		return rep
	}
	extra := `"resultType":"complete"`
	if slices.Contains(listMethods, method) || method == mcp.ResourcesRead || method == mcp.ServerDiscover {
		extra += `,"ttlMs":` + strconv.Itoa(s.cfg.TTL) + `,"cacheScope":"public"`
	}
	if strings.HasPrefix(rep.Result, "{}") {
		rep.Result = "{" + extra + "}"
	} else {
		rep.Result = "{" + extra + "," + rep.Result[1:]
	}
	return rep
}

func (s *Server) dispatch(ctx context.Context, r *Request) Reply {
	switch r.Method {
	case mcp.Initialize:
		return s.initialize(r)
	case mcp.ServerDiscover:
		return s.discover()
	case mcp.Ping, mcp.ResourcesSubscribe, mcp.ResourcesUnsubscribe:
		return Reply{Result: "{}"}
	case mcp.LoggingSetLevel:
		return s.setLevel(r)
	case mcp.ToolsCall:
		return s.callTool(ctx, r)
	case mcp.PromptsGet:
		return Reply{Result: `{"messages":[]}`}
	case mcp.ResourcesRead:
		return Reply{Result: `{"contents":[]}`}
	}
	if i := slices.Index(listMethods, r.Method); i >= 0 {
		return s.list(i, r)
	}
	return rpcError(mcp.CodeMethodNotFound, "Method not found")
}

func (s *Server) initialize(r *Request) Reply {
	var p struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(r.Params, &p)
	version := p.ProtocolVersion
	if !slices.Contains(s.cfg.Versions, version) || version == mcp.ModernVersion {
		version = s.cfg.Versions[0]
		if version == mcp.ModernVersion && len(s.cfg.Versions) > 1 {
			version = s.cfg.Versions[1]
		}
	}
	return Reply{Result: fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":%q,"version":"1.0"}%s}`,
		version, s.capabilities(), s.cfg.Name, s.instructions())}
}

func (s *Server) discover() Reply {
	supported, _ := json.Marshal(s.cfg.Versions)
	return Reply{Result: fmt.Sprintf(`{"supportedVersions":%s,"capabilities":%s,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":%q,"version":"1.0"}}%s}`,
		supported, s.capabilities(), s.cfg.Name, s.instructions())}
}

func (s *Server) instructions() string {
	if s.cfg.Instructions == "" {
		return ""
	}
	quoted, _ := json.Marshal(s.cfg.Instructions)
	return `,"instructions":` + string(quoted)
}

func (s *Server) capabilities() string {
	if s.cfg.Capabilities != "" {
		return s.cfg.Capabilities
	}
	caps := []string{`"tools":{"listChanged":true}`, `"logging":{}`}
	if s.cfg.Prompts != nil {
		caps = append(caps, `"prompts":{"listChanged":true}`)
	}
	if s.cfg.Resources != nil || s.cfg.Templates != nil {
		caps = append(caps, `"resources":{"listChanged":true,"subscribe":true}`)
	}
	return "{" + strings.Join(caps, ",") + "}"
}

func (s *Server) setLevel(r *Request) Reply {
	var p struct {
		Level string `json:"level"`
	}
	_ = json.Unmarshal(r.Params, &p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = p.Level
	s.changedLocked()
	return Reply{Result: "{}"}
}

func (s *Server) list(kind int, r *Request) Reply {
	var p struct {
		Cursor string `json:"cursor"`
	}
	_ = json.Unmarshal(r.Params, &p)
	from := 0
	if p.Cursor != "" {
		text, err := base64.RawURLEncoding.DecodeString(p.Cursor)
		if err == nil {
			from, err = strconv.Atoi(string(text))
		}
		if err != nil {
			return rpcError(mcp.CodeInvalidParams, "Invalid cursor")
		}
	}
	s.mu.Lock()
	items := s.lists[kind]
	s.mu.Unlock()
	from = min(from, len(items))
	to, more := len(items), ""
	if s.cfg.PageSize > 0 && from+s.cfg.PageSize < to {
		to = from + s.cfg.PageSize
		more = `,"nextCursor":"` + base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(to))) + `"`
	}
	return Reply{Result: `{"` + listMembers[kind] + `":[` + strings.Join(items[from:to], ",") + `]` + more + `}`}
}

func (s *Server) callTool(ctx context.Context, r *Request) Reply {
	var p struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(r.Params, &p); err != nil {
		return rpcError(mcp.CodeInvalidParams, "Invalid params")
	}
	if p.Arguments == nil {
		p.Arguments = json.RawMessage("{}")
	}
	switch p.Name {
	case "work":
		return s.work(ctx, r, p.Arguments)
	case "fail":
		return Reply{Result: `{"content":[{"type":"text","text":"it failed"}],"isError":true}`}
	}
	quoted, _ := json.Marshal(p.Name + " " + string(p.Arguments))
	return Reply{Result: `{"content":[{"type":"text","text":` + string(quoted) + `}],"structuredContent":` + string(p.Arguments) + `}`}
}

func (s *Server) work(ctx context.Context, r *Request, args json.RawMessage) Reply {
	var a struct {
		ID    string `json:"id"`
		MS    int    `json:"ms"`
		Steps int    `json:"steps"`
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return rpcError(mcp.CodeInvalidParams, "Invalid arguments")
	}
	s.mu.Lock()
	s.execs[a.ID]++
	n := s.execs[a.ID]
	s.changedLocked()
	s.mu.Unlock()
	s.journal("exec " + a.ID)
	for i := range a.Steps {
		if ctx.Err() != nil {
			break // nobody hears of the rest
		}
		s.pause(ctx, time.Duration(a.MS)*time.Millisecond/time.Duration(a.Steps))
		r.Progress(i + 1)
	}
	if a.Steps == 0 && a.MS > 0 {
		s.pause(ctx, time.Duration(a.MS)*time.Millisecond)
	}
	return Reply{Result: fmt.Sprintf(`{"content":[{"type":"text","text":"done %s"}],"structuredContent":{"id":%q,"n":%d}}`, a.ID, a.ID, n)}
}

// encode makes the envelope of a reply.
func (rep *Reply) encode(id json.RawMessage) string {
	if rep.Raw != "" {
		return rep.Raw
	}
	if rep.ID != "" {
		id = json.RawMessage(rep.ID)
	}
	if rep.Error != "" {
		return `{"jsonrpc":"2.0","id":` + string(id) + `,"error":` + rep.Error + `}`
	}
	return `{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + rep.Result + `}`
}

// noteAnswer keeps a client's answer to a request of the server.
func (s *Server) noteAnswer(raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, slices.Clone(raw))
	s.changedLocked()
}

// noteNotification keeps a notification; for a cancel it returns the raw id.
func (s *Server) noteNotification(e *envelope) (cancelled string) {
	if e.Method == mcp.NotifyCancelled {
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		_ = json.Unmarshal(e.Params, &p)
		cancelled = string(p.RequestID)
		s.journal("cancelled " + cancelled)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[e.Method]++
	s.notified = append(s.notified, Request{Method: e.Method, Params: slices.Clone(e.Params)})
	if cancelled != "" {
		s.cancelled = append(s.cancelled, cancelled)
	}
	s.changedLocked()
	return cancelled
}
