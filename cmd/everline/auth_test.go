package main

import (
	"net/http"
	"net/http/httptest"
	"os"
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
	var issuer *authserver.Server
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { issuer.ServeHTTP(w, r) }))
	ts.Defer(site.Close)
	issuer = authserver.New(site.URL, script)
	var resource *authserver.Resource
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { resource.ServeHTTP(w, r) }))
	ts.Defer(server.Close)
	resource = authserver.NewResource(server.URL+"/mcp", issuer)
	resource.SetBehind(mcptest.New(mcptest.Config{}).Handler())
	ts.Setenv(args[0], server.URL+"/mcp")
}
