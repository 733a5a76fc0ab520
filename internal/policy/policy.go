// Package policy says what a client may do: which policies of the configuration its
// labels are granted, what these let it see, and how much of it. It knows no request,
// and neither who a client is nor what it is told.
package policy

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/catalog"
)

// A Subject is who policies are granted to; an access.Identity is one.
type Subject interface {
	Labels() []string   // what a configuration grants something to, besides "*"
	Policies() []string // those that it brings along, whatever the configuration grants
}

// A Decision is what was decided of one request, for whoever writes it down.
type Decision struct {
	Allowed  bool
	Policies []string // that decided: the first that allows it, or all that were asked; not to be changed
	Rule     string   // of that policy, as it stands there; "" if refused
	Reason   string   // why not, as one of the Reason constants; "" if allowed
}

// The reasons of a refusal.
const (
	ReasonNothing    = "nothing_granted" // nobody has granted the client anything
	ReasonServer     = "server"          // the server is not among those that it may see
	ReasonGroup      = "group"           // it is not among those of the address
	ReasonTool       = "tool"            // the tool is not among those that it may see
	ReasonRate       = "rate"            // too many calls in a time
	ReasonConcurrent = "concurrent"      // too many calls at a time
	ReasonSessions   = "sessions"        // too many sessions
	ReasonBody       = "body"            // the message is too large
)

// Rules are the policies and grants of one configuration. They are not changed once
// made, but for what they remember of scopes.
type Rules struct {
	configured bool
	policies   map[string]*compiled
	grants     []config.Grant

	mu     sync.Mutex        // guards scopes; nothing waits under it
	scopes map[string]*Scope // by the names that Scope.Name joins
}

// maxScopes bounds what is remembered: which sets of policies come together depends
// on whom the configuration does not list.
const maxScopes = 64

// New returns the rules of a configuration.
func New(cfg *config.Config) *Rules {
	r := &Rules{
		configured: cfg.Policies != nil || cfg.Grants != nil, grants: cfg.Grants,
		policies: map[string]*compiled{config.PolicyAll: everything}, scopes: map[string]*Scope{},
	}
	for i := range cfg.Policies {
		r.policies[cfg.Policies[i].Name] = compile(cfg, &cfg.Policies[i])
	}
	return r
}

// Everything is the scope of who is not restricted.
var Everything = &Scope{policies: []*compiled{everything}, names: []string{config.PolicyAll}}

var everything = &compiled{names: []string{config.PolicyAll}}

// For is what a subject may do: the same value for whoever has the same policies. It
// is nil where nothing is granted, and everything for a nil subject, and for each
// that brings no policy where the configuration has neither policies nor grants.
func (r *Rules) For(s Subject) *Scope {
	if s == nil || !r.configured && len(s.Policies()) == 0 {
		return Everything
	}
	var names []string
	grant := func(policies []string) {
		for _, name := range policies {
			if r.policies[name] != nil && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	grant(s.Policies())
	labels := s.Labels()
	for _, g := range r.grants {
		if g.Label == "*" || slices.Contains(labels, g.Label) {
			grant(g.Policies)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return r.scope(names)
}

func (r *Rules) scope(names []string) *Scope {
	key := strings.Join(names, "+")
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.scopes[key]; s != nil {
		return s
	}
	s := &Scope{names: names}
	for _, name := range names {
		s.policies = append(s.policies, r.policies[name])
	}
	s.limits = union(s.policies)
	for old := range r.scopes {
		if len(r.scopes) < maxScopes {
			break
		}
		delete(r.scopes, old)
	}
	r.scopes[key] = s
	return s
}

// A Scope is what some policies together allow: whatever one of them does. A nil one
// allows nothing. It is not changed once made.
type Scope struct {
	names    []string
	policies []*compiled
	limits   Limits
}

func (s *Scope) any(allows func(p *compiled) bool) bool {
	return s != nil && slices.ContainsFunc(s.policies, allows)
}

// Name is the names of the policies, in order and joined by "+"; "" of a nil scope.
func (s *Scope) Name() string {
	if s == nil {
		return ""
	}
	return strings.Join(s.names, "+")
}

// Limits are how much is allowed; nil where nothing is limited. They are not to be
// changed.
func (s *Scope) Limits() *Limits {
	if s == nil || s.limits == (Limits{}) {
		return nil
	}
	return &s.limits
}

// Whole tells whether nothing that a server has is withheld.
func (s *Scope) Whole(server string) bool {
	return s.any(func(p *compiled) bool {
		return p.tools == nil && !p.readOnly && p.server(server)
	})
}

// All tells whether nothing of any server is withheld.
func (s *Scope) All() bool {
	return s.any(func(p *compiled) bool { return p.servers == nil && p.tools == nil && !p.readOnly })
}

// Server tells whether a server is there, for the client.
func (s *Scope) Server(server string) bool {
	return s.any(func(p *compiled) bool { return p.server(server) })
}

// Tool tells whether a tool is there, for the client: name is the server's own.
func (s *Scope) Tool(server, name string, readOnly bool) bool {
	return s.any(func(p *compiled) bool {
		_, ok := p.tool(server, name, readOnly)
		return ok && p.server(server)
	})
}

// Decide is the decision on a request for a server; tool is "" for a request about
// none.
func (s *Scope) Decide(server, tool string, readOnly bool) Decision {
	if s == nil {
		return Decision{Reason: ReasonNothing}
	}
	for _, p := range s.policies {
		if !p.server(server) {
			continue
		}
		if rule, ok := p.tool(server, tool, readOnly); tool == "" || ok {
			return Decision{Allowed: true, Policies: p.names, Rule: cmp.Or(rule, p.servers[server], ruleAll)}
		}
	}
	if !s.Server(server) {
		return s.Refused(ReasonServer)
	}
	return s.Refused(ReasonTool)
}

// Refused is the decision against a request.
func (s *Scope) Refused(reason string) Decision {
	if s == nil {
		return Decision{Reason: reason}
	}
	return Decision{Policies: s.names, Reason: reason}
}

// A compiled policy has what a request is compared with.
type compiled struct {
	names    []string          // its name alone
	servers  map[string]string // with the rule that each is there by; nil: all
	tools    []toolRule        // nil: all
	readOnly bool
	limits   Limits
}

// A toolRule is one of the globs of tools, or one of the ways to read it.
type toolRule struct{ server, tool, text string }

// Rules, as they stand in a policy.
const (
	ruleServers  = "servers"
	ruleReadOnly = "readOnly"
	ruleAll      = "all" // the policy names neither servers nor tools
)

func compile(cfg *config.Config, p *config.Policy) *compiled {
	c := &compiled{names: []string{p.Name}, readOnly: p.ReadOnly, limits: limitsOf(p)}
	if p.Tools != nil {
		c.tools = []toolRule{}
		for _, glob := range p.Tools {
			for _, parts := range config.PolicyTool(glob) {
				c.tools = append(c.tools, toolRule{parts[0], parts[1], "tools " + glob})
			}
		}
	}
	if p.Servers == nil && p.Groups == nil {
		return c
	}
	c.servers = map[string]string{}
	for _, name := range p.Groups {
		group, _ := cfg.Group(name)
		for _, server := range group.Servers {
			c.servers[server] = "groups " + name
		}
	}
	for _, name := range p.Servers {
		c.servers[name] = ruleServers
	}
	return c
}

func (p *compiled) server(server string) bool {
	if p.servers != nil {
		return p.servers[server] != ""
	}
	return p.tools == nil || slices.ContainsFunc(p.tools, func(r toolRule) bool { return catalog.Matches(r.server, server) })
}

// tool tells by which rule a tool is allowed: "" where all of its server are.
func (p *compiled) tool(server, name string, readOnly bool) (rule string, ok bool) {
	if p.readOnly && !readOnly {
		return "", false
	}
	if p.tools == nil {
		if p.readOnly {
			rule = ruleReadOnly
		}
		return rule, true
	}
	for _, r := range p.tools {
		if catalog.Matches(r.server, server) && catalog.Matches(r.tool, name) {
			return r.text, true
		}
	}
	return "", false
}

// Limits are how much a client may do; zero for no limit.
type Limits struct {
	Rate       float64 // calls in a second
	Burst      int     // calls at the same moment; valid with Rate
	Concurrent int     // calls in flight
	Sessions   int
	MaxBody    int64 // bytes of one message
}

func limitsOf(p *config.Policy) Limits {
	l := Limits{Concurrent: p.Concurrent, Sessions: p.Sessions, MaxBody: p.MaxBody}
	if p.Rate.Calls > 0 {
		l.Rate = float64(p.Rate.Calls) / (float64(p.Rate.Per) / float64(time.Second))
		l.Burst = p.Burst
		if l.Burst == 0 {
			l.Burst = p.Rate.Calls
		}
	}
	return l
}

// union is the most generous of each limit.
func union(policies []*compiled) Limits {
	l := policies[0].limits
	for _, p := range policies[1:] {
		l.Rate = loosest(l.Rate, p.limits.Rate)
		l.Burst = max(l.Burst, p.limits.Burst)
		l.Concurrent = loosest(l.Concurrent, p.limits.Concurrent)
		l.Sessions = loosest(l.Sessions, p.limits.Sessions)
		l.MaxBody = loosest(l.MaxBody, p.limits.MaxBody)
	}
	if l.Rate == 0 {
		l.Burst = 0
	}
	return l
}

func loosest[T int | int64 | float64](a, b T) T {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}
