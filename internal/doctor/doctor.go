// Package doctor looks for what is wrong with an installation and names the
// command that fixes it. It changes nothing, and beyond one probe of a server
// that nobody runs it starts nothing.
package doctor

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/sandbox"
	"github.com/everline/everline/internal/show"
)

// A Verdict is how bad a finding is.
type Verdict string

// The verdicts, from good to bad.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn"
	Fail Verdict = "fail"
)

// A Finding is the result of one check.
type Finding struct {
	Check   string  `json:"check"`  // config, command, port, dns, tls, handshake, ...
	Server  string  `json:"server"` // "" if it is about no server
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
	Remedy  string  `json:"remedy"` // what to type or do; "" if there is nothing to fix
	TookMS  int64   `json:"tookMs"` // of checks that wait for something
	// Phases are the parts of a handshake; null for other checks.
	Phases []admin.Phase `json:"phases"`
}

// Options say what is looked at.
type Options struct {
	Config   *config.Config
	Files    []string
	StateDir string
	Server   string // this one alone; "" for all

	CredentialsKey string // the file with the key of the logins in StateDir; "": one that is found
	Version        string // of this program

	Running *admin.Status // of the everline that runs; nil if none does
	Tools   []admin.Tool  // that it publishes

	Env       func(string) (string, bool)
	Home      string
	PortOwner func(port int) int
	// MayServe is why serve would refuse an address; nil if it would not, or nobody knows.
	MayServe func(address string) *fault.Fault
	// Landlock is what the system can enforce of sandboxes; nil: it is asked.
	Landlock *sandbox.Support
	// Begin, if not nil, is called for each server before it is looked at.
	Begin func(server string)
	// CreateTemp makes files to try whether state can be written; os.CreateTemp by default.
	CreateTemp func(dir, pattern string) (*os.File, error)
	// Timeout bounds each wait; 15 s by default.
	Timeout time.Duration
}

// An examination is one run.
type examination struct {
	Options
	report func(Finding)
	hide   func(string) string // takes secrets out of what a finding repeats
	failed bool
}

// Run makes every check that can be made now and hands each finding to report
// as it comes. It reports whether anything has failed.
func Run(ctx context.Context, o Options, report func(Finding)) (failed bool) {
	if o.Timeout <= 0 {
		o.Timeout = 15 * time.Second
	}
	if o.CreateTemp == nil {
		o.CreateTemp = os.CreateTemp
	}
	if o.Landlock == nil {
		o.Landlock = new(sandbox.Supported())
	}
	if o.MayServe == nil {
		o.MayServe = func(string) *fault.Fault { return nil }
	}
	e := &examination{Options: o, report: report, hide: o.Config.Hider()}
	if o.Server == "" {
		e.files()
		e.gateway()
		e.port(ctx)
		e.system()
		e.guarded()
	}
	for _, s := range o.Config.Servers {
		if o.Server == "" || o.Server == s.Name {
			if o.Begin != nil {
				o.Begin(s.Name)
			}
			e.server(ctx, s)
		}
	}
	if o.Server == "" {
		e.catalog()
	}
	return e.failed
}

func (e *examination) say(check, server string, v Verdict, remedy, format string, args ...any) {
	e.add(Finding{Check: check, Server: server, Verdict: v, Remedy: remedy, Text: fmt.Sprintf(format, args...)})
}

func (e *examination) add(f Finding) {
	e.failed = e.failed || f.Verdict == Fail
	f.Text, f.Remedy = e.hide(f.Text), e.hide(f.Remedy)
	e.report(f)
}

// gateway looks at the everline that runs.
func (e *examination) gateway() {
	st := e.Running
	if st == nil {
		e.say("gateway", "", Warn, "everline serve", "no everline runs on the state folder %s", e.StateDir)
		return
	}
	e.say("gateway", "", OK, "", "running as process %d since %s", st.PID, st.StartedAt.Local().Format("2006-01-02 15:04"))
	if st.Version != e.Version {
		e.say("gateway", "", Warn, "restart everline", "it runs version %s, and this program is %s", st.Version, e.Version)
	}
	if st.ConfigError != nil {
		remedy, since := "fix the file, then: everline reload", ""
		if st.ConfigRemedy != nil {
			remedy = *st.ConfigRemedy
		}
		if st.ConfigErrorSince != nil {
			since = " for " + show.Span(time.Since(*st.ConfigErrorSince))
		}
		e.say("gateway", "", Fail, remedy, "the files are not applied%s: %s", since, *st.ConfigError)
	}
	e.problems("")
	e.orphans("")
}

// problems reports what is wrong with what everline keeps on disk, of one server
// or, for "", of all.
func (e *examination) problems(server string) {
	for _, p := range e.Running.Problems {
		if server == "" || p.Server == server {
			e.say(p.About, p.Server, Fail, p.Remedy, "%s (for %s)", p.Text, show.Span(time.Since(p.Since)))
		}
	}
}

// orphans reports processes that an earlier run left behind, of one
// server or, for "", of all.
func (e *examination) orphans(server string) {
	for _, l := range e.Running.Orphans {
		if server != "" && l.Server != server {
			continue
		}
		if l.Ended {
			e.say("orphans", l.Server, Warn, "", "process %d of an earlier run was still there, and was ended", l.PID)
		} else {
			e.say("orphans", l.Server, Fail, fmt.Sprintf("kill -9 %d", l.PID), "process %d of an earlier run will not end", l.PID)
		}
	}
}

// The limits of clients that are known to refuse or cut longer names.
const (
	longestForMost   = 64
	longestForCursor = 60 // with the name of the server, which is everline
	manyTokens       = 25_000
)

// catalog looks at what clients get to see.
func (e *examination) catalog() {
	if e.Running == nil {
		return
	}
	tokens, cut, cursor := 0, 0, 0
	for _, t := range e.Tools {
		tokens += t.Tokens
		if len(t.Name) > longestForMost {
			cut++
		}
		if len(t.Name)+len(clients.LinkName) > longestForCursor {
			cursor++
		}
	}
	switch {
	case cut > 0:
		e.say("names", "", Fail, `set "maxName": 64 in the configuration`, "%d tool names are longer than %d characters, which most clients refuse", cut, longestForMost)
	case cursor > 0:
		e.say("names", "", Warn, "rename them under \"tools\", or give the servers shorter names", "%d tool names are too long for Cursor", cursor)
	default:
		e.say("names", "", OK, "", "%d tools, no name too long", len(e.Tools))
	}
	if tokens > manyTokens {
		e.say("tokens", "", Warn, `set "expose": "search", or allow fewer tools`, "the tools cost a model about %d tokens in every conversation", tokens)
	} else {
		e.say("tokens", "", OK, "", "the tools cost a model about %d tokens", tokens)
	}
}
