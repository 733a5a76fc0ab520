package systest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/wire"
)

const taskState = `{"taskId":"task-1","status":"working","statusMessage":"FROM","createdAt":"2026-07-28T00:00:00Z","lastUpdatedAt":"2026-07-28T00:00:00Z","ttl":600000,"ttlMs":600000}`

func taskBegun(era mcptest.Era) string {
	if era == mcptest.Modern {
		return `{"resultType":"task",` + taskState[1:]
	}
	return `{"task":` + taskState + `}`
}

// A boundRow is one method about what somebody has begun, by its id.
type boundRow struct {
	method, what string
	only         string // the era that has it; "" for both
	task         bool   // of a task, else of an outcome
	params       func(id string) string
	shows        string // what whose it is reads; "" for what the server says
}

func (r *boundRow) eras() string {
	if r.only == "" {
		return "both"
	}
	return r.only
}

func member(name string) func(string) string {
	return func(id string) string { return `"` + name + `":"` + id + `"` }
}

var boundRows = []boundRow{
	{mcp.TasksGet, "a task", "", true, member("taskId"), ""},
	{mcp.TasksResult, "a task", "legacy", true, member("taskId"), ""},
	{mcp.TasksUpdate, "a task", "modern", true, member("taskId"), ""},
	{mcp.TasksCancel, "a task", "", true, member("taskId"), ""},
	{mcp.TasksList, "tasks", "legacy", true, fixed(``), "<ID>"},
	{mcp.SubscriptionsListen, "a task", "modern", true, func(id string) string { return `"notifications":{"taskIds":["` + id + `"]}` }, "<ID>"},
	{mcp.EverlineResult, "a kept outcome", "", false, member("resultId"), ""},
}

// The matrix asks for every method that a client may send.
func TestAccessMatrixIsWhole(t *testing.T) {
	asked := map[string]bool{}
	for _, q := range questions {
		asked[q.method] = true
	}
	for _, row := range boundRows {
		asked[row.method] = true
	}
	words, err := os.ReadFile("../mcp/mcp.go")
	if err != nil {
		t.Fatal(err)
	}
	ofServers := []string{mcp.ElicitationCreate, mcp.SamplingCreateMessage, mcp.RootsList}
	for _, m := range regexp.MustCompile(`(?m)^\t\w+ += "([a-z]+(/[a-zA-Z/]+)?)"`).FindAllStringSubmatch(string(words), -1) {
		if method := m[1]; !asked[method] && !slices.Contains(ofServers, method) && !strings.HasPrefix(method, "notifications/") {
			t.Errorf("nobody asks for %s", method)
		}
	}
}

// Ids of what nobody has, as long as those of tasks and outcomes.
var (
	noTask   = strings.Repeat("A", 26)
	noResult = strings.Repeat("0", 32)
)

// bound has each identity begin a task and keep an outcome at each server, and all
// identities ask for them.
func (f *forest) bound(w way, speakers map[string]speaker, found *finding) {
	f.t.Helper()
	for i := range grantees {
		owner := &grantees[i]
		for _, server := range owner.servers {
			ids := map[bool]string{false: f.keep(owner, server, speakers[owner.name])}
			if w.modern == (f.era == mcptest.Modern) {
				ids[true] = f.begin(owner, server, w, speakers[owner.name])
			}
			for j := range boundRows {
				row := &boundRows[j]
				id := ids[row.task]
				if id == "" || row.only != "" && w.modern != (row.only == "modern") {
					continue
				}
				for k := range grantees {
					found.cells++
					f.checkBound(row, w, owner, &grantees[k], server, id, speakers[grantees[k].name], found)
				}
			}
		}
	}
}

// checkBound asks for what the owner has begun at a server.
func (f *forest) checkBound(row *boundRow, w way, owner, who *grantee, server, id string, speak speaker, found *finding) {
	f.t.Helper()
	ask := func(id string) (answer string, heard bool) {
		q := &question{method: row.method, params: fixed(row.params(id)), item: fixed(id)}
		before := f.asked(server, row.method)
		answer = speak(q, server)
		return plain(strings.ReplaceAll(answer, id, "<ID>"), "NAME"), f.asked(server, row.method) > before
	}
	got, heard := ask(id)
	shows := row.shows
	if shows == "" {
		shows = from(server)
	}
	cell := fmt.Sprintf("%s over %s: %s of %s at %s", who.name, w.name, row.method, owner.name, server)
	none := noResult
	if row.task {
		none = noTask
	}
	if who == owner || row.method == mcp.TasksList { // which has no id
		if strings.Contains(got, shows) != (who == owner) {
			f.t.Errorf("%s is told %s", cell, got)
		}
		return
	}
	if unknown, _ := ask(none); heard || got != unknown {
		f.t.Errorf("%s (heard: %v)\n%s\nand of what nobody has:\n%s", cell, heard, got, unknown)
	}
	if row.method != mcp.SubscriptionsListen {
		found.note(f.t, row.method+" of another", w.modern, got)
	}
}

// tool is one that an identity may call at its servers.
func (g *grantee) tool() string { return g.tools[0] }

// begin has a server begin a task, and returns its id.
func (f *forest) begin(g *grantee, server string, w way, speak speaker) string {
	f.t.Helper()
	q := &question{method: mcp.ToolsCall, item: named(g.tool()), params: func(s string) string {
		return nameOf(g.tool())(s) + `,"arguments":{"task":true},"task":{"ttl":600000}`
	}}
	if w.modern {
		q.params = func(s string) string { return nameOf(g.tool())(s) + `,"arguments":{"task":true}` }
	}
	answer := speak(q, server)
	_, text, _ := strings.Cut(answer, `{"jsonrpc"`)
	raw := []byte(`{"jsonrpc"` + text)
	id, ok := wire.Text(wire.Get(raw, "result", "task", "taskId"))
	if w.modern {
		id, ok = wire.Text(wire.Get(raw, "result", "taskId"))
	}
	if !ok || len(id) != len(noTask) {
		f.t.Fatalf("%s over %s: no task at %s: %s", g.name, w.name, server, answer)
	}
	return id
}

// keep has the outcome of a call of a server kept, and returns its id.
func (f *forest) keep(g *grantee, server string, speak speaker) string {
	f.t.Helper()
	f.kept++
	id := fmt.Sprintf("%0*d", len(noResult), f.kept)
	q := &question{method: mcp.ToolsCall, item: named(g.tool()), params: nameOf(g.tool()), meta: fixed(`"everline/resultId":"` + id + `"`)}
	if answer := speak(q, server); !strings.Contains(answer, from(server)) {
		f.t.Fatalf("%s: %s", g.name, answer)
	}
	return id
}
