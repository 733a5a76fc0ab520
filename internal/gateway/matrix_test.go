package gateway

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline/config"
	words "github.com/everline/everline/internal/mcp"
)

// features are what each pair is tried with, in this order.
var features = []string{
	"tools", "prompts", "resources", "progress", "logging", "elicitation", "sampling", "roots", "list_changed", "subscribe", "cancel",
}

// A trial is one client against one server.
type trial struct {
	*mcp.ClientSession
	version string
	server  config.Server
	heard   *heardBy
	direct  bool // to the server, not by way of everline
}

// name is the server's own name of something, as the client sees it.
func (m *trial) name(of string) string {
	if m.direct {
		return of
	}
	return m.server.Name + "__" + of
}

// heardBy is what one client hears.
type heardBy struct{ progress, logs, updates, changes chan string }

func put(ch chan string, s string) {
	select {
	case ch <- s:
	default: // nobody is interested in so many
	}
}

func matrixClient(t *testing.T, tr mcp.Transport, version string) (*mcp.ClientSession, *heardBy) {
	t.Helper()
	h := &heardBy{make(chan string, 64), make(chan string, 64), make(chan string, 64), make(chan string, 64)}
	c := mcp.NewClient(&mcp.Implementation{Name: "matrix", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "t"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			put(h.progress, fmt.Sprint(r.Params.ProgressToken))
		},
		LoggingMessageHandler:  func(_ context.Context, r *mcp.LoggingMessageRequest) { put(h.logs, fmt.Sprint(r.Params.Data)) },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { put(h.updates, r.Params.URI) },
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { put(h.changes, "") },
	})
	c.AddRoots(&mcp.Root{URI: "file:///root"})
	s, err := c.Connect(t.Context(), tr, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect with %s: %v", version, err)
	}
	return s, h
}

// text calls a tool of the trial's server.
func (m *trial) text(ctx context.Context, tool string, meta mcp.Meta) (string, error) {
	res, err := m.CallTool(ctx, &mcp.CallToolParams{Name: m.name(tool), Meta: meta})
	if err != nil {
		return "", err
	}
	text := ""
	if len(res.Content) > 0 {
		if c, ok := res.Content[0].(*mcp.TextContent); ok {
			text = c.Text
		}
	}
	if res.IsError {
		return "", errors.New(text)
	}
	return text, nil
}

func (m *trial) uri() string {
	transport, version, _ := strings.Cut(m.server.Name, "-")
	return "test:///" + transport + "/" + version
}

// hears waits for something on ch.
func hears(ch chan string, want string, d time.Duration) error {
	late := time.After(d)
	for {
		select {
		case got := <-ch:
			if got == want {
				return nil
			}
		case <-late:
			return errors.New("nothing came")
		}
	}
}

// try is one feature; the error says how it does not work.
func (m *trial) try(ctx context.Context, feature string) error {
	switch feature {
	case "tools":
		_, err := m.text(ctx, "echo", nil)
		return err
	case "prompts":
		_, err := m.GetPrompt(ctx, &mcp.GetPromptParams{Name: m.name("hello")})
		return err
	case "resources":
		_, err := m.ReadResource(ctx, &mcp.ReadResourceParams{URI: m.uri()})
		return err
	case "progress":
		if _, err := m.text(ctx, "progress", mcp.Meta{"progressToken": m.server.Name}); err != nil {
			return err
		}
		return hears(m.heard.progress, m.server.Name, patience)
	case "cancel":
		return m.tryCancel(ctx)
	case "logging":
		return m.tryLogging(ctx)
	case "subscribe":
		if err := m.Subscribe(ctx, &mcp.SubscribeParams{URI: m.uri()}); err != nil {
			return err
		}
		return m.until(ctx, "touch", m.heard.updates, m.uri())
	case "list_changed":
		return m.until(ctx, "grow", m.heard.changes, "")
	default:
		_, err := m.text(ctx, feature, nil)
		return err
	}
}

// tryLogging: the level that a session wants reaches servers behind its answer.
func (m *trial) tryLogging(ctx context.Context) error {
	if m.version != words.ModernVersion {
		return m.until(ctx, "log", m.heard.logs, m.uri())
	}
	if _, err := m.text(ctx, "log", mcp.Meta{"io.modelcontextprotocol/logLevel": "info"}); err != nil {
		return err
	}
	return hears(m.heard.logs, m.uri(), patience)
}

// until calls a tool until its effect is heard: a stream may still be opening.
func (m *trial) until(ctx context.Context, tool string, ch chan string, want string) error {
	for ctx.Err() == nil {
		if _, err := m.text(ctx, tool, nil); err != nil {
			return err
		}
		if hears(ch, want, 300*time.Millisecond) == nil {
			return nil
		}
	}
	return errors.New("nothing came")
}

// tryCancel gives calls up until the server has heard of one: the first may be
// given up before it was sent.
func (m *trial) tryCancel(ctx context.Context) error {
	before, err := m.text(ctx, "canceled", nil)
	if err != nil {
		return err
	}
	for patience := 20 * time.Millisecond; ctx.Err() == nil; patience *= 2 {
		short, stop := context.WithTimeout(ctx, patience)
		_, err := m.text(short, "wait", nil)
		stop()
		if !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("the call ended with %w", err)
		}
		for end := time.Now().Add(10 * patience); time.Now().Before(end); {
			if now, err := m.text(ctx, "canceled", nil); err != nil || now != before {
				return err
			}
		}
	}
	return errors.New("the server was not told")
}

// lacking is what a server of an older version that keeps no sessions cannot do,
// whoever is connected to it: TestWhatServersWithoutSessionsLack.
var lacking = []string{"elicitation", "sampling", "roots", "list_changed", "subscribe", "cancel"}

// excused is why a feature need not work in a pair; "" if it must.
func excused(feature string, s config.Server) string {
	if strings.HasPrefix(s.Name, "stateless-") && !strings.HasSuffix(s.Name, words.ModernVersion) && slices.Contains(lacking, feature) {
		return "of a server that keeps no sessions all but " + strings.Join(lacking, ", ") + ", which its clients lack without everline, too"
	}
	return ""
}

var rewritePage = flag.Bool("rewrite", false, "write the page anew")

// TestCompatibilityMatrix tries everything that a client can use, in each
// version and over each transport, against servers of each version over each
// transport, and compares what it finds with the page in the documentation.
func TestCompatibilityMatrix(t *testing.T) {
	servers := matrixServers(t)
	s := wholeOf(t, servers...)
	found := map[string][]string{} // by server version: why something does not work there
	run := func(version, by string, tr mcp.Transport, features ...string) {
		session, heard := matrixClient(t, tr, version)
		defer session.Close()
		if version != words.ModernVersion {
			if err := session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
				t.Fatal(err)
			}
		}
		for _, server := range servers {
			m := &trial{ClientSession: session, version: version, server: server, heard: heard}
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			for _, f := range features {
				if f == "list_changed" && by != string(server.Transport) {
					continue // slow, since announcements are spaced; each version has one transport to itself
				}
				_, of, _ := strings.Cut(server.Name, "-")
				if excuse := excused(f, server); excuse != "" {
					if !slices.Contains(found[of], excuse) {
						found[of] = append(found[of], excuse)
					}
				} else if err := m.try(ctx, f); err != nil {
					t.Errorf("client %s over %s, server %s, %s: %v", version, by, server.Name, f, err)
				}
			}
			cancel()
		}
	}
	// Subscriptions come late: when one ends, go-sdk forgets on stdio that lists
	// were listened to as well. Cancels come last: what a canceled call may still
	// ask for reaches nobody else, so for a while others cannot be asked by
	// servers on a connection.
	n := len(features)
	for _, some := range [][]string{features[:n-2], features[n-2 : n-1], features[n-1:]} {
		for _, v := range slices.Backward(versions) { // the modern one first: what sessions ask for does not help it
			run(v, "http", &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: s.web}, some...)
			tr, wait := piped(t, s.g.ServeStdio)
			run(v, "stdio", tr, some...)
			wait()
			if v != words.ModernVersion {
				run(v, "sse", &mcp.SSEClientTransport{Endpoint: s.url + "/sse", HTTPClient: s.web}, some...)
			}
		}
	}
	tasks := taskTable(t)
	if !t.Failed() {
		comparePage(t, matrixPage(found, tasks))
	}
}

// TestWhatServersWithoutSessionsLack tries directly what the page says that such servers
// cannot do.
func TestWhatServersWithoutSessionsLack(t *testing.T) {
	for _, version := range versions[:len(versions)-1] {
		for _, feature := range lacking {
			t.Run(version+"/"+feature, func(t *testing.T) {
				t.Parallel()
				s := matrixServer("stateless", version)
				session, heard := matrixClient(t, &mcp.StreamableClientTransport{Endpoint: serveAt(t, matrixHandler(s, true))}, version)
				defer session.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // what works takes milliseconds
				defer cancel()
				m := &trial{session, version, config.NewServer("stateless-" + version), heard, true}
				if err := m.try(ctx, feature); err == nil {
					t.Error("it works")
				}
			})
		}
	}
}

// columns are the server versions of the page.
var columns = append(slices.Clone(versions), dualVersion)

// tableHead begins a table with a row for each client and a column for each server.
func tableHead() string {
	return "| client \\ server | " + strings.ReplaceAll(strings.Join(columns, " | "), dualVersion, "both eras") + " |\n|---|" + strings.Repeat("---|", len(columns)) + "\n"
}

func matrixPage(found map[string][]string, tasks []byte) []byte {
	var notes []string
	for _, v := range columns {
		for _, n := range found[v] {
			if !slices.Contains(notes, n) {
				notes = append(notes, n)
			}
		}
	}
	var b bytes.Buffer
	b.WriteString("# Which client works with which server\n\n" +
		"Written by `go test ./internal/gateway -run TestCompatibilityMatrix -rewrite`. The clients and servers are those of\n" +
		"go-sdk, held to one protocol version each, and servers that speak both eras. Clients come over Streamable HTTP, stdio and (up to 2025-11-25)\n" +
		"HTTP+SSE, and servers are reached likewise, over Streamable HTTP with sessions and without. Tried in each pair:\n" +
		strings.Join(features, ", ") + ".\nA second table is of [tasks](#tasks).\n\n" + tableHead())
	for _, c := range versions {
		b.WriteString("| " + c + " |")
		for _, v := range columns {
			cell := "all"
			for i, n := range notes {
				if slices.Contains(found[v], n) {
					cell += fmt.Sprintf(" (%d)", i+1)
				}
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	for i, n := range notes {
		fmt.Fprintf(&b, "\n%d. %s.\n", i+1, strings.ToUpper(n[:1])+n[1:])
	}
	b.WriteString(matrixNotes)
	b.Write(tasks)
	b.WriteString(taskNotes)
	return b.Bytes()
}

func comparePage(t *testing.T, page []byte) {
	t.Helper()
	file := filepath.Join("..", "..", "docs", "reference", "compatibility.md")
	if *rewritePage {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(file); err != nil || !bytes.Equal(old, page) {
		t.Errorf("%s is not what the test has found (%v); -rewrite writes:\n%s", file, err, page)
	}
}

const matrixNotes = `
What a server of an older version asks for reaches the client whose call caused it. Over Streamable HTTP the stream says
which call that is. Over stdio and HTTP+SSE it is certain only while a single client has calls there; otherwise the
request is refused, and the refusal says why. A call that was given up counts until the server has read the cancel, and a
call that was made without a client counts as well: [whose question it is](../explanation/clients.md). Roots are not offered to servers there: they ask for them at their start, when no
client has called.

A client of 2026-07-28 names the log level in each request, and an older server has one for all. It is asked for the most talkative that any
call or session wants, and for less ten seconds after the last such call. Over stdio and HTTP+SSE its messages belong to a call only while
all calls there are of one client.

What a client has not declared is refused when the server asks for it. If the call fails then, a client of 2026-07-28
gets the error -32021, which names the capability. Before the server is asked it gets that for a tool which requires a task, and
for tasks, without the extension: nothing else says before a call what it will ask for.
`

const taskNotes = `
In each pair, over all transports, a client calls a tool that may become a task.

- tasks: the call begins one. The client looks at it while it works, cancels it, and fetches the result of another, all in
  the words of its own era: of 2025-11-25, or of the extension io.modelcontextprotocol/tasks of 2026-07-28.
- at once: client or server has no tasks, so the call waits for the tool, and its answer is the result.
- at once, or a code: so too, but where the tool requires a task the call is refused with that error.

The clients and servers of this table are those of the tests, since go-sdk has no tasks. The client of 2026-07-28 declares
the extension, except in the last row.

## What differs from a direct connection

` + "`TestClientsSeeWhatADirectConnectionShows`" + ` of the conformance tests calls each tool and prompt of the official SDK's fixture as clients of both eras,
directly and through everline, over a URL and a command that speak both, and compares the bytes. They are the same, but for

- the progress token: a tool that writes it into its answer writes everline's, since two clients may have chosen the same;
- clients of an older revision that serve no requests of servers: they are served in the modern era, so results have
  resultType and the server's name in _meta. What a client has not declared is refused when the server
  asks for it, where a server that is connected directly fails in words of its own, or asks all the same;
- a stream that a server ends before its answer: the call ends with an outcome, or with the answer.

## Extensions

| what | client of | server of | passes |
|---|---|---|---|
| what a server declares under extensions, but for tasks, and under experimental | both eras | both eras | as it declares it; of several that declare the same, the settings of the first, up to 4 KiB |
| what a client declares under extensions and experimental | 2026-07-28 | 2026-07-28 | as it declares it |
| | 2025-11-25 and older | 2026-07-28 | as it declares it, with each of its calls, but for MCP Apps (as below) and tasks, which it has in the words of its own era; up to 4 KiB in all |
| | 2025-11-25 and older | 2025-11-25 and older | so too, with the handshake of a generation that is its own (isolation: session) or [of its own era](../explanation/clients.md#a-generation-of-the-clients-own-era); a server that clients share: no, it is told once, before any client is there |
| | 2026-07-28 | 2025-11-25 and older | likewise, with the handshake of a generation that is its own: what the requests until then have declared |
| that a client shows MCP Apps (io.modelcontextprotocol/ui) | both eras | both eras | with the MIME type text/html;profile=mcp-app; a server of an older version that clients share is told that they do |
| MCP Apps: _meta.ui of tools and resources, ui:// resources and their contents | both eras | both eras | byte for byte |
| Skills: skills/list, skills/get, resources/directory/read, and skill:// resources | both eras | both eras | byte for byte; of several servers to the one that is named, as below |
| oauth-client-credentials, enterprise-managed-authorization | both eras | both eras | what is declared, as above; the login is that of each connection: a client's to everline, everline's to the server |
| requests of a client of a method that no revision defines, with their _meta | both eras | both eras | byte for byte; where to, as below |
| requests of a server of such a method | 2025-11-25 and older | 2025-11-25 and older | byte for byte, to the client whose call caused it, where that is certain |
| | 2026-07-28 | 2025-11-25 and older | no, -32601: an input request is elicitation, sampling or roots |
| | both eras | 2026-07-28 | no: that revision has no requests of servers |
| notifications of a server of such a method | both eras | both eras | byte for byte, to the client whose call they belong to, where that is certain; others go nowhere, as they might tell a client what is another's. With isolation: session an older server reaches its client outside of calls, too |
| notifications of a client of such a method | 2025-11-25 and older | 2025-11-25 and older | byte for byte, to a generation that is the client's own: with isolation: session, or a command's [of its own era](../explanation/clients.md#a-generation-of-the-clients-own-era); which server's, as below. A server that clients share gets none: it would take what one says for what all say, and might ask another one in return |
| | both eras | 2026-07-28 | no: that revision has no notifications of clients but the cancel |
| | 2026-07-28 | both eras | no, likewise |
| tasks | 2025-11-25, and 2026-07-28 with the extension | both kinds | in the words of the client's own era; see [tasks](../explanation/clients.md) |

More than 4 KiB of what a client declares under extensions and experimental is left out whole, and the log says so, at most once a minute; the calls of a client
of 2026-07-28 carry it as it is.
What is kept is noted in the state folder, and outlives a restart with the session. It does not where such notes cannot be written, where the
session's key was lost, or where more than 10,000 sessions have something noted: then such servers are told of MCP Apps alone, until the client
begins a new session.

## Methods and notifications

A request goes to the server that its name, URI or task belongs to. One of a method that no revision defines goes, byte
for byte, to the server that its _meta["everline/server"] names, or to the only one; where there are several and none is
named it is answered with -32601. So is what a revision defines and everline does not serve. Extension methods are sent again only where it is proven that they were not
executed.

Of a client's notifications, cancelled has an effect; the others that a revision defines are read, and go to no server. One of another method
goes to the server that its _meta["everline/server"] names, if that has declared any extension or experimental capability; without a name to the
only one that has declared one by whose name the method begins, with or without notifications/ before it: notifications/com.example/channel/said is
of com.example/channel. Where several have declared it, none gets it: what is meant for one need not be for the others. Nothing is started for a
notification, and it waits for a second at most to be written; what cannot be sent is lost, as it has no answer. It counts as a request where a client's calls are
limited, and is recorded as answered once it is written. What a client sends when it has been taken (202, or the next line on stdio) comes behind it; everline stdio
does not wait for that. A server's go where they
belong: progress, log messages, list_changed, resource updates, the news of tasks, the end of a URL elicitation, and those of
extensions during a call. Those that belong to no certain call, and progress of what is over, go nowhere; the status counts them as "ignored".

The handshake with a server carries everline/instance in its _meta: a random name of the everline that runs. An endpoint
whose own name that is refuses it with -31012 and the kind "loop" in data.
`
