package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/mcptest/authserver"
)

// browse is a browser whose user approves of everything.
func browse() {
	resp, err := http.Get(os.Args[1])
	if err != nil || resp.StatusCode != http.StatusOK {
		os.Exit(1)
	}
	_ = resp.Body.Close()
}

// pasted NAME [flags] logs in with --paste: it opens the page that the command
// shows, does not follow the redirect, and pastes where that leads.
func pasted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: pasted NAME [flags]")
	}
	cmd := exec.Command("everline", append([]string{"auth", "login", "--paste", "-o", "jsonl"}, args...)...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), os.Environ()
	for _, name := range []string{"HOME", "PATH", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "NOTES"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	cmd.Stderr = ts.Stderr()
	ts.Check(cmd.Start())
	lines := json.NewDecoder(out)
	var step loginStep
	ts.Check(lines.Decode(&step))
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Get(step.URL)
	ts.Check(err)
	_ = resp.Body.Close()
	_, err = io.WriteString(in, resp.Header.Get("Location")+"\n")
	ts.Check(err)
	var end authServer
	ts.Check(lines.Decode(&end))
	ts.Check(in.Close())
	ts.Check(cmd.Wait())
	if end.Auth.State != "ok" {
		ts.Fatalf("the login is %s", end.Auth.State)
	}
}

// guarded VAR [lifetime] serves a scripted server that wants a login, with the
// authorization server that gives it, until the script ends, and sets VAR to its
// URL.
func guarded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: guarded VAR [lifetime]")
	}
	var script authserver.Script
	if len(args) == 2 {
		lifetime, err := time.ParseDuration(args[1])
		ts.Check(err)
		script.Lifetime = lifetime
	}
	// Who connects to a port that was another's a moment ago must find all of it.
	site, server := httptest.NewUnstartedServer(nil), httptest.NewUnstartedServer(nil)
	issuer := authserver.New("http://"+site.Listener.Addr().String(), script)
	site.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		issuer.ServeHTTP(w, r)
		if r.URL.Path == "/device" {
			issuer.Approve() // the code is typed at once
		}
	})
	resource := authserver.NewResource("http://"+server.Listener.Addr().String()+"/mcp", issuer)
	resource.SetBehind(mcptest.New(mcptest.Config{}).Handler())
	server.Config.Handler = resource
	for _, s := range []*httptest.Server{site, server} {
		s.Start()
		ts.Defer(s.Close)
	}
	ts.Setenv(args[0], server.URL+"/mcp")
}
