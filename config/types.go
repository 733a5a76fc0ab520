// Package config turns configuration text into a checked Config and the
// difference of two Configs into a Plan. It starts nothing and keeps nothing:
// everything in it is a value.
package config

import (
	"time"

	"github.com/everline/everline/fault"
)

// A Config is everything that configuration says. It is not changed after Load.
type Config struct {
	Servers  []Server // in the order of the files
	Listen   string   // address of the endpoint; "127.0.0.1:7433" by default
	Warnings []Warning

	FirstListWait time.Duration // how long the very first list waits; 500 ms
	Separator     string        // between server and tool in exposed names; "__"
	MaxName       int           // longest exposed name; 64
	DrainTimeout  time.Duration // how long a stop waits for calls; 10 s
	MaxStarting   int           // servers that may be starting at the same time; 8
}

// Origin is where something was configured.
type Origin struct {
	File string
	Line int
}

// A Warning is something in a file that does not stop it from being used.
type Warning struct {
	Origin
	Server string // "" if it is about no server
	Text   string
}

// A Server is one configured MCP server, defaults filled in.
type Server struct {
	Name   string
	Origin Origin

	Transport string // "stdio", "http" or "sse"; "auto" for a URL whose transport is to be found out
	Command   string
	Args      []string
	Env       map[string]string
	Cwd       string
	URL       string
	Headers   map[string]string

	Disabled bool // not started until enabled
	Lazy     bool // started by the first call
	Required bool // /readyz says no without it
	Overlap  bool // a successor starts before the old life ends; default true for a URL, false for stdio

	StartupTimeout  time.Duration // open, handshake and first listing; 60 s
	CallTimeout     time.Duration // hard cap of one call; 10 min
	ParkFor         time.Duration // how long a call may wait for a server that is away; 30 s
	DrainTimeout    time.Duration // how long a replaced life may finish its calls; 10 s
	IdleTimeout     time.Duration // a lazy server is stopped after so long without a call; 0: never
	RefreshInterval time.Duration // how often catalogs are listed again; 5 min; 0: never
	PingAfter       time.Duration // silence on a call after which the server is pinged; 30 s
	StopGrace       time.Duration // from SIGTERM to SIGKILL; 1.5 s

	MaxConcurrent int   // calls at a time; 0: no limit
	MaxWaiting    int   // calls that may wait; 1024
	MaxMessage    int64 // bytes of one message; 64 MiB

	Replay Replay // may a call whose outcome is unknown be sent again
	Retry  Retry
	Tools  Tools

	// Err is why this server cannot run as configured (an unset variable, a
	// missing URL), with file and line. The other servers run.
	Err *fault.Fault

	secrets []string // values that interpolation put into command, args, cwd or url
}

// New returns a Config without servers and with every default.
func New() *Config {
	return &Config{
		Listen:        "127.0.0.1:7433",
		FirstListWait: 500 * time.Millisecond,
		Separator:     "__",
		MaxName:       64,
		DrainTimeout:  10 * time.Second,
		MaxStarting:   8,
	}
}

// NewServer returns a server of this name with every default that does not
// depend on how it is reached. Whoever sets URL also sets Transport and, where
// a successor shall start before the old life ends, Overlap.
func NewServer(name string) Server {
	return Server{
		Name:            name,
		Transport:       "stdio",
		StartupTimeout:  time.Minute,
		CallTimeout:     10 * time.Minute,
		ParkFor:         30 * time.Second,
		DrainTimeout:    10 * time.Second,
		RefreshInterval: 5 * time.Minute,
		PingAfter:       30 * time.Second,
		StopGrace:       1500 * time.Millisecond,
		MaxWaiting:      1024,
		MaxMessage:      64 << 20,
		Retry: Retry{
			Restart:     "always",
			FastTries:   5,
			FirstDelay:  time.Second,
			MaxDelay:    30 * time.Second,
			SlowProbe:   5 * time.Minute,
			StableAfter: 30 * time.Second,
			Strikes:     3,
			MaxStarts:   60,
		},
	}
}

// Replay says which calls whose outcome is unknown are sent again.
type Replay uint8

const (
	ReplaySafe   Replay = iota // those whose tool is read-only or idempotent by its hints
	ReplayNever                // none
	ReplayAlways               // all
)

// String returns "safe", "never" or "always".
func (r Replay) String() string {
	switch r {
	case ReplayNever:
		return "never"
	case ReplayAlways:
		return "always"
	default:
		return "safe"
	}
}

// Retry holds the reconnect numbers; see lifecycle.Policy for their meaning.
type Retry struct {
	Restart     string // "always", "on-failure", "never"
	FastTries   int
	FirstDelay  time.Duration
	MaxDelay    time.Duration
	SlowProbe   time.Duration
	StableAfter time.Duration
	Strikes     int
	MaxStarts   int
}

// Tools says which tools of a server are published, and under which names.
// Patterns are globs over the server's own tool names.
type Tools struct {
	Allow  []string          // if not empty, only these
	Deny   []string          // never these; neither listed nor callable
	Hide   []string          // callable, but not listed
	Rename map[string]string // own name to published name, before any prefix
	Replay map[string]Replay // by own name; overrides the server's
}

// A Plan is the difference between two Configs, by server name, each list
// sorted in the order of the new config (Remove: of the old).
type Plan struct {
	Add, Remove, Change, Keep []string
}
