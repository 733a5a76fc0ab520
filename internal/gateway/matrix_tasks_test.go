package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	words "github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/wire"
)

// go-sdk knows no tasks, so the servers of this part of the matrix are those of
// mcptest, and its clients write their requests themselves.

// taskEnv makes this test binary a stdio server with tasks that speaks the version
// it names.
const taskEnv = "EVERLINE_TEST_TASKS_VERSION"

// runTaskChild does nothing in a test process.
func runTaskChild() {
	if version := os.Getenv(taskEnv); version != "" {
		_ = taskServer(version, false).Serve(os.Stdin, os.Stdout) // the end of stdin is its end
		os.Exit(0)
	}
}

// taskServer is a server of one version, or of both eras, with tasks if that has them.
func taskServer(version string, stateless bool) *mcptest.Server {
	cfg := mcptest.Config{Versions: []string{version}, Stateless: stateless}
	switch version {
	case dualVersion:
		cfg.Era, cfg.Versions = mcptest.Dual, nil
	case words.ModernVersion:
		cfg.Era = mcptest.Modern
	case words.LatestLegacy:
	default: // which knows neither tasks nor tools that need them
		cfg.Tools = []string{`{"name":"slow_compute","inputSchema":{"type":"object"}}`}
		s := mcptest.New(cfg)
		s.On(words.ToolsCall, func(*mcptest.Request) *mcptest.Reply {
			return &mcptest.Reply{Result: `{"content":` + taskContent + `}`}
		})
		return s
	}
	cfg.Tools, cfg.Capabilities = mcptest.TaskTools, mcptest.TaskCapabilities(cfg.Era)
	s := mcptest.New(cfg)
	mcptest.ServeTasks(s)
	return s
}

// taskServers are servers of every version, and of both eras, on every transport that
// they have, by the names of matrixServers.
func taskServers(t *testing.T) []config.Server {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var all []config.Server
	for _, v := range columns {
		c := config.NewServer("stdio-" + v)
		c.Transport, c.Command, c.Env = "stdio", exe, map[string]string{taskEnv: v, "GORACE": "atexit_sleep_ms=0"}
		all = append(all, c)
		paths := map[string]string{"http": "/mcp"}
		if v != words.ModernVersion && v != dualVersion {
			paths["stateless"], paths["sse"] = "/mcp", "/sse"
		}
		for form, path := range paths {
			c := config.NewServer(form + "-" + v)
			c.Transport = config.Transport(strings.Replace(form, "stateless", "http", 1))
			c.URL = mcptest.Web(t, taskServer(v, form == "stateless")).URL + path
			all = append(all, c)
		}
	}
	return all
}

// plainModern is a client of 2026-07-28 that does not declare the extension.
const plainModern = words.ModernVersion + " without the extension"

// A taskClientOf is one client, and ask brings everline its messages and returns the
// answers; "" to a notification.
type taskClientOf struct {
	version string
	ask     func(method, name, body string) string
}

// modern tells whether the client is of the modern era.
func (c *taskClientOf) modern() bool { return strings.HasPrefix(c.version, words.ModernVersion) }

// request is the answer to a request with these params, which begin with a comma.
func (c *taskClientOf) request(method, name, params string) string {
	if !c.modern() {
		return c.ask(method, name, rpc("1", method, "{"+strings.TrimPrefix(params, ",")+"}"))
	}
	body := modernBody("1", method, params)
	if c.version != plainModern {
		body = strings.Replace(body, `Capabilities":{}`, `Capabilities":`+string(declaresTasks(nil)), 1)
	}
	return c.ask(method, name, body)
}

// answer is the frame of a stream that answers.
func answer(next func() string) string {
	for {
		if frame := next(); wire.Get([]byte(frame), "method") == nil {
			return frame
		}
	}
}

// taskClients are a client over each transport that its version has.
func taskClients(t *testing.T, s *site, version string) map[string]*taskClientOf {
	t.Helper()
	hello := strings.Replace(hello, "2025-06-18", version, 1)
	modern := strings.HasPrefix(version, words.ModernVersion)
	headers := []string{"MCP-Protocol-Version: " + words.ModernVersion}
	pipes := talk(t, s.g.ServeStdio)
	if !modern {
		headers = []string{s.initialize(version)}
		pipes.say(hello)
		answer(pipes.next)
	}
	clients := map[string]*taskClientOf{
		"http": {version, func(method, name, body string) string {
			h := headers
			if modern {
				h = append(h[:1:1], "Mcp-Method: "+method, "Mcp-Name: "+name)
			}
			lines := strings.Split(strings.TrimSpace(s.post(body, h...).body), "\n")
			return strings.TrimPrefix(lines[len(lines)-1], "data: ")
		}},
		"stdio": {version, func(_, _, body string) string { pipes.say(body); return answer(pipes.next) }},
	}
	if !modern {
		events := s.tap("GET", "/sse", "")
		path := "/" + events.next()
		send := func(_, _, body string) string {
			want(t, s.do("POST", path, body), 202)
			return answer(events.next)
		}
		send("", "", hello)
		clients["sse"] = &taskClientOf{version, send}
	}
	return clients
}

// tasksOf is what a client gets from a server, in the words of the page.
func (c *taskClientOf) tasksOf(server string) (string, error) {
	_, of, _ := strings.Cut(server, "-")
	theirs := of == dualVersion || of >= words.LatestLegacy
	switch {
	case theirs && (c.version == words.LatestLegacy || c.version == words.ModernVersion):
		return "tasks", c.useTasks(server)
	case !theirs:
		return "at once", c.useNone(server)
	}
	if err := c.useNone(server); err != nil {
		return "", err
	}
	refused := c.request(words.ToolsCall, server+"__failing_job", `,"name":"`+server+`__failing_job"`)
	if code := wire.Get([]byte(refused), "error", "code"); code != nil {
		return "at once, or " + string(code), nil
	}
	return "", fmt.Errorf("a tool that requires a task is answered with %s", refused)
}

// call calls a tool that may become a task, which ends after some seconds; -1: never.
func (c *taskClientOf) call(server string, seconds int) string {
	params := fmt.Sprintf(`,"name":"%s__slow_compute","arguments":{"seconds":%d}`, server, seconds)
	if c.version == words.LatestLegacy {
		params += `,"task":{"ttl":60000}`
	}
	return c.request(words.ToolsCall, server+"__slow_compute", params)
}

// taskContent is what all the tools say.
const taskContent = `[{"type":"text","text":"done"}]`

// useNone: the tool answers at once.
func (c *taskClientOf) useNone(server string) error {
	a := c.call(server, 0)
	if string(wire.Get([]byte(a), "result", "content")) != taskContent {
		return fmt.Errorf("the call is answered with %s", a)
	}
	return nil
}

// useTasks begins a task, looks at it and cancels it, and fetches the result of another,
// all in the words of the client's era.
func (c *taskClientOf) useTasks(server string) error {
	ttl, task := "ttl", []string{"result", "task"}
	if c.modern() {
		ttl, task = "ttlMs", []string{"result"}
	}
	about := func(method, id string) []byte { return []byte(c.request(method, id, `,"taskId":"`+id+`"`)) }
	begin := func(seconds int) (string, error) {
		a := c.call(server, seconds)
		state := wire.Get([]byte(a), task...)
		id, _ := wire.Text(wire.Get(state, "taskId"))
		if id == "" || strings.HasPrefix(id, "task-") || string(wire.Get(state, ttl)) != "60000" {
			return "", fmt.Errorf("the call began %s", a)
		}
		return id, nil
	}
	is := func(id, status string) ([]byte, error) {
		a := about(words.TasksGet, id)
		if got, _ := wire.Text(wire.Get(a, "result", "status")); got != status {
			return nil, fmt.Errorf("the task is not %s: %s", status, a)
		}
		return a, nil
	}
	id, err := begin(-1)
	if err != nil {
		return err
	}
	_, working := is(id, "working")
	stopped := about(words.TasksCancel, id)
	_, canceled := is(id, "cancelled")
	if err := errors.Join(working, canceled); err != nil {
		return fmt.Errorf("%w; canceling was answered with %s", err, stopped)
	}
	if id, err = begin(0); err != nil {
		return err
	}
	a, err := is(id, "completed")
	at := []string{"result", "result", "content"}
	if !c.modern() {
		a, at = about(words.TasksResult, id), at[1:]
	}
	if err == nil && string(wire.Get(a, at...)) != taskContent {
		err = fmt.Errorf("the result is %s", a)
	}
	return err
}

// taskTable tries tasks in each pair, and is what the page says of them.
func taskTable(t *testing.T) []byte {
	t.Helper()
	servers := taskServers(t)
	s := wholeOf(t, servers...)
	b := bytes.NewBufferString("\n## Tasks\n\n" + tableHead())
	for _, version := range append(versions[:len(versions):len(versions)], plainModern) {
		cells := map[string]string{}
		for by, c := range taskClients(t, s, version) {
			for _, server := range servers {
				_, of, _ := strings.Cut(server.Name, "-")
				got, err := c.tasksOf(server.Name)
				if before, ok := cells[of]; err == nil && ok && before != got {
					err = fmt.Errorf("%s, and %s elsewhere", got, before)
				}
				if err != nil {
					t.Errorf("client %s over %s, server %s, tasks: %v", version, by, server.Name, err)
				}
				cells[of] = got
			}
		}
		b.WriteString("| " + version + " |")
		for _, of := range columns {
			b.WriteString(" " + cells[of] + " |")
		}
		b.WriteString("\n")
	}
	return b.Bytes()
}
