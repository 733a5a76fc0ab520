package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/everline/everline/fault"
)

// Check is what is wrong with a Config that a program has put together: two
// servers or groups of one name, or a word that is none of those allowed. "" is
// the default everywhere. What is read from files has been checked by then, and
// a server with an Err costs only itself. The fault is of kind Invalid.
func (c *Config) Check() *fault.Fault {
	problems := []string{
		wrongWord("MetricsPerServer", c.MetricsPerServer, PerServerAuto, PerServerOn, PerServerOff),
		wrongWord("Clients", c.Clients, ClientsSameUser, ClientsAnyLocal, ClientsTokens),
		wrongWord("TLSTerminatedBy", c.TLSTerminatedBy, TLSByNobody, TLSByProxy),
		wrongWord("Access.MTLS", c.Access.MTLS, CertURI, CertCN),
		wrongWord("Page", c.Page, PageOpen, PageToken, PageOff),
		wrongWord("Naming", c.Naming, NamingAuto, NamingAlwaysPrefix),
		wrongWord("Outage", c.Outage, OutageKeep, OutageHide),
		wrongWord("Pins", c.Pins, PinsOff, PinsWarn, PinsEnforce),
		wrongWord("Expose", c.Expose, ExposeAll, ExposeSearch),
	}
	groups := map[string]bool{}
	for _, g := range c.Groups {
		problems = append(problems, wrongWord("Expose of the group "+strconv.Quote(g.Name), g.Expose, ExposeAll, ExposeSearch))
		if groups[g.Name] {
			problems = append(problems, fmt.Sprintf("two groups are called %q", g.Name))
		}
		groups[g.Name] = true
	}
	if i := slices.IndexFunc(problems, func(p string) bool { return p != "" }); i >= 0 {
		return invalidIn("", problems[i])
	}
	return c.checkServers()
}

// checkServers looks at names and words. A server with an Err has been read from a
// file, and is misconfigured already.
func (c *Config) checkServers() *fault.Fault {
	names := map[string]bool{}
	for i, s := range c.Servers {
		if names[s.Name] {
			return invalidIn(s.Name, fmt.Sprintf("two servers are called %q", s.Name))
		}
		names[s.Name] = true
		if s.Err != nil {
			continue
		}
		if s.Name == "" {
			return invalidIn("", fmt.Sprintf("server %d has no name", i+1))
		}
		if bad := s.wrongWord(); bad != "" {
			return invalidIn(s.Name, bad)
		}
	}
	return nil
}

// wrongWord is the first word of a server that is none of those allowed.
func (s *Server) wrongWord() string {
	problems := []string{
		wrongWord("Transport", s.Transport, TransportStdio, TransportHTTP, TransportSSE, TransportAuto),
		wrongWord("Eras", s.Eras, ErasAuto, ErasModern, ErasLegacy, ErasBoth),
		wrongWord("Isolation", s.Isolation, IsolationShared, IsolationSession),
		wrongWord("Retry.Restart", s.Retry.Restart, RestartAlways, RestartOnFailure, RestartNever),
		wrongReplay("Replay", s.Replay),
	}
	for tool, replay := range s.Tools.Replay {
		problems = append(problems, wrongReplay("Tools.Replay of "+strconv.Quote(tool), replay))
	}
	slices.Sort(problems) // the map has no order
	return problems[len(problems)-1]
}

func wrongWord[T ~string](field string, word T, allowed ...T) string {
	if word == "" || slices.Contains(allowed, word) {
		return ""
	}
	return fmt.Sprintf("%s is %q, and must be one of %s", field, word, strings.Join(asTexts(allowed), ", "))
}

func wrongReplay(field string, r Replay) string {
	if r <= ReplayAlways {
		return ""
	}
	return fmt.Sprintf("%s is %d, and must be one of ReplaySafe, ReplayNever, ReplayAlways", field, r)
}

func invalidIn(server, text string) *fault.Fault {
	f := fault.New(fault.Invalid, "check the configuration", text)
	f.Server, f.Outcome = server, fault.NotSent
	return f
}
