package systest

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
)

// A listener hears what is told to one identity.
type listener struct {
	t      *testing.T
	who    string
	what   string
	lines  chan string
	heard  []string
	header map[string]string
	url    string
	web    *http.Client
}

func (f *forest) listener(who, what string) *listener {
	return &listener{t: f.t, who: who, what: what, lines: make(chan string, 4096), url: f.url + "/mcp", web: &http.Client{Transport: whoSends{who, f.web.Transport}}}
}

func (l *listener) send(ctx context.Context, method, body string) *http.Response {
	l.t.Helper()
	r, _ := http.NewRequestWithContext(ctx, method, l.url, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range l.header {
		r.Header.Set(k, v)
	}
	resp, err := l.web.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	return resp
}

// follow reads a stream until the test ends.
func (l *listener) follow(method, body string) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.t.Context()))
	resp := l.send(ctx, method, body)
	if resp.StatusCode != 200 {
		l.t.Fatalf("%s, %s: %d", l.who, l.what, resp.StatusCode)
	}
	done := make(chan struct{})
	go func() { // ends with the stream; the cleanup waits for it
		defer close(done)
		defer close(l.lines)
		for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
			if data, ok := bytes.CutPrefix(sc.Bytes(), []byte("data: ")); ok && len(data) > 0 {
				l.lines <- string(data)
			}
		}
	}()
	l.t.Cleanup(func() { cancel(); resp.Body.Close(); <-done })
}

// until reads until a text comes.
func (l *listener) until(text string) {
	l.t.Helper()
	late := time.After(soon)
	for {
		if i := slices.IndexFunc(l.heard, func(line string) bool { return strings.Contains(line, text) }); i >= 0 {
			return
		}
		select {
		case line, ok := <-l.lines:
			if !ok {
				l.t.Fatalf("%s, %s: the stream ended before %s", l.who, l.what, text)
			}
			l.heard = append(l.heard, line)
		case <-late:
			l.t.Fatalf("%s, %s: %s was not heard, but %v", l.who, l.what, text, l.heard)
		}
	}
}

// ends reads until the stream ends.
func (l *listener) ends() {
	l.t.Helper()
	late := time.After(soon)
	for {
		select {
		case _, ok := <-l.lines:
			if !ok {
				return
			}
		case <-late:
			l.t.Fatalf("%s, %s: the stream goes on", l.who, l.what)
		}
	}
}

// legacy is a session that wants to hear everything.
func (f *forest) legacy(who string) *listener {
	l := f.listener(who, "legacy")
	resp := l.send(within(f.t), "POST", questions[0].frame(0, "", false))
	resp.Body.Close()
	l.header = map[string]string{"Mcp-Session-Id": resp.Header.Get("Mcp-Session-Id")}
	l.follow("GET", "")
	ask := func(method, params string) {
		l.send(within(f.t), "POST", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`}}`).Body.Close()
	}
	ask("logging/setLevel", `"level":"debug"`)
	for _, server := range trees {
		ask("resources/subscribe", uriOf("/a")(server))
	}
	return l
}

// modern is a subscription that wants to hear everything.
func (f *forest) modern(who string) *listener {
	l := f.listener(who, "modern")
	l.header = map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
	var uris []string
	for _, server := range trees {
		uris = append(uris, `"mem://`+server+`/a"`)
	}
	l.follow("POST", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{`+modernMeta+`},"notifications":{"toolsListChanged":true,"resourceSubscriptions":[`+strings.Join(uris, ",")+`]}}}`)
	l.until("acknowledged")
	return l
}

// What servers tell reaches those that are granted them, and nobody else; a reload
// counts for streams that are open.
func TestAccessNews(t *testing.T) {
	f := plant(t, mcptest.Legacy)
	var all []*listener
	for _, g := range grantees {
		all = append(all, f.legacy(g.name), f.modern(g.name))
	}
	tell := func(word string) {
		for _, server := range trees {
			f.trees[server].Notify("notifications/message", `{"level":"error","data":"`+word+`-log-`+server+`"}`)
			f.trees[server].Notify("notifications/resources/updated", `{"uri":"mem://`+server+`/a","_meta":{"word":"`+word+`"}}`)
		}
	}
	check := func(word string) {
		t.Helper()
		for i, l := range all {
			g := grantees[i/2]
			for _, server := range g.servers {
				if l.what == "legacy" {
					l.until(word + "-log-" + server)
				}
				l.until(`"uri":"mem://` + server + `/a","_meta":{"word":"` + word + `"`)
			}
			for _, other := range trees {
				if slices.ContainsFunc(l.heard, func(line string) bool { return strings.Contains(line, other) }) && !g.has(other) {
					t.Errorf("%s, %s: hears of %s: %v", l.who, l.what, other, l.heard)
				}
			}
		}
	}
	tell("one")
	check("one")
	f.trees["alder"].SetTools(`{"name":"other","inputSchema":{"type":"object"}}`)
	f.trees["alder"].Notify("notifications/tools/list_changed", "")
	for i, l := range all {
		if grantees[i/2].has("alder") {
			l.until("tools/list_changed")
		}
	}
	tell("two")
	check("two")
	for i, l := range all {
		if !grantees[i/2].has("alder") && slices.ContainsFunc(l.heard, func(line string) bool { return strings.Contains(line, "list_changed") }) {
			t.Errorf("%s, %s: hears that a list changed which it does not see", l.who, l.what)
		}
	}
	f.reload(all)
}

// reload gives docs what look has, and takes everything from send.
func (f *forest) reload(all []*listener) {
	f.t.Helper()
	for _, l := range all {
		l.heard = nil
	}
	next := *f.cfg
	next.Grants = slices.Clone(f.cfg.Grants)
	next.Grants[1].Policies = []string{"look"}
	next.Grants[3].Policies = []string{config.PolicyNone}
	began := time.Now()
	if _, err := f.hub.Apply(within(f.t), &next); err != nil {
		f.t.Fatal(err)
	}
	for _, l := range all {
		switch l.who {
		case "docs":
			l.until("tools/list_changed")
		case "send":
			l.ends()
		}
	}
	if took := time.Since(began); took > time.Second {
		f.t.Errorf("the reload took %s to be heard of", took)
	}
	resp := all[6].send(within(f.t), "POST", `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`)
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		f.t.Errorf("send is answered %d", resp.StatusCode)
	}
	f.trees["alder"].Notify("notifications/resources/updated", `{"uri":"mem://alder/a"}`)
	f.trees["cedar"].Notify("notifications/message", `{"level":"error","data":"fence"}`)
	f.trees["birch"].Notify("notifications/resources/updated", `{"uri":"mem://birch/a"}`)
	all[2].until("fence")
	for _, l := range all[2:4] {
		l.until("mem://birch/a")
		if slices.ContainsFunc(l.heard, func(line string) bool { return strings.Contains(line, "alder") }) {
			f.t.Errorf("docs, %s: hears of what was taken from it: %v", l.what, l.heard)
		}
	}
	for i, l := range all {
		if (l.who == "root" || l.who == "look") && slices.ContainsFunc(l.heard, func(line string) bool { return strings.Contains(line, "list_changed") }) {
			f.t.Errorf("%d: %s, whose view is the same, is told of a change", i, l.who)
		}
	}
}
