package policy

import (
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/everline/everline/config"
)

type subject struct{ labels, policies []string }

func (s subject) Labels() []string   { return s.labels }
func (s subject) Policies() []string { return s.policies }

func rules(policies []config.Policy, grants ...config.Grant) *Rules {
	cfg := config.New()
	cfg.Groups = []config.Group{{Name: "reading", Servers: []string{"docs", "git"}}}
	cfg.Policies, cfg.Grants = policies, grants
	return New(cfg)
}

var both = []config.Policy{
	{Name: "read", Servers: []string{"docs", "git"}, ReadOnly: true, Rate: config.Rate{Calls: 20, Per: time.Second}, Sessions: 2},
	{Name: "write", Tools: []string{"git.create_*", "mail.*"}, Rate: config.Rate{Calls: 600, Per: time.Minute}, Burst: 50},
}

func TestWhoHasWhat(t *testing.T) {
	r := rules(both, config.Grant{Label: "token:ci", Policies: []string{"read"}}, config.Grant{Label: "scope:w", Policies: []string{"write", "read"}}, config.Grant{Label: "*", Policies: []string{"none"}})
	for _, c := range []struct {
		who  Subject
		want string
	}{
		{nil, "all"},
		{subject{}, ""},
		{subject{labels: []string{"token:other"}}, ""},
		{subject{labels: []string{"token:ci"}}, "read"},
		{subject{labels: []string{"token:ci", "scope:w"}}, "read+write"},
		{subject{policies: []string{"write"}}, "write"},
		{subject{policies: []string{"gone", "none"}}, ""},
		{subject{policies: []string{"all"}, labels: []string{"token:ci"}}, "all+read"},
	} {
		got := ""
		if s := r.For(c.who); s != nil {
			got = s.Name()
		}
		if got != c.want {
			t.Errorf("%+v has %q, want %q", c.who, got, c.want)
		}
	}
	if r.For(subject{labels: []string{"scope:w"}}) != r.For(subject{policies: []string{"read", "write"}}) {
		t.Error("the same policies are two scopes")
	}
}

func TestNothingIsConfigured(t *testing.T) {
	r := rules(nil)
	if r.For(subject{labels: []string{"anonymous"}}) != Everything {
		t.Error("without policies and grants something is restricted")
	}
	if r.For(subject{policies: []string{"gone"}}) != nil {
		t.Error("a token whose policy is gone is not restricted")
	}
	if s := rules([]config.Policy{}).For(subject{}); s != nil {
		t.Error("policies that nobody is granted restrict nobody")
	}
}

// A policy allows what all that it says allows, and several what one of them does.
func TestWhatPoliciesAllow(t *testing.T) {
	for _, c := range []struct {
		policies []config.Policy
		servers  string // of docs, git, mail and git.x
		tools    []string
	}{
		{[]config.Policy{{}}, "docs git mail git.x", []string{"docs.get", "git.get", "git.create_tag", "mail.send", "git.x.get"}},
		{[]config.Policy{{Servers: []string{}}}, "", nil},
		{[]config.Policy{{Servers: []string{"docs"}}}, "docs", []string{"docs.get"}},
		{[]config.Policy{{Groups: []string{"reading"}, Servers: []string{"mail"}}}, "docs git mail", []string{"docs.get", "git.get", "git.create_tag", "mail.send"}},
		{[]config.Policy{{Groups: []string{"none of it"}}}, "", nil},
		{[]config.Policy{{ReadOnly: true}}, "docs git mail git.x", []string{"docs.get", "git.get", "git.x.get"}},
		{[]config.Policy{{Tools: []string{"git.*"}}}, "git", []string{"git.get", "git.create_tag"}},
		{[]config.Policy{{Tools: []string{"*.get"}}}, "docs git mail git.x", []string{"docs.get", "git.get", "git.x.get"}},
		{[]config.Policy{{Tools: []string{}}}, "", nil},
		{[]config.Policy{{Tools: []string{"no dot"}}}, "", nil},
		{[]config.Policy{{Tools: []string{"git.x.get"}}}, "git git.x", []string{"git.x.get"}},
		{[]config.Policy{{Servers: []string{"docs"}, Tools: []string{"git.*"}}}, "docs", nil},
		{both, "docs git mail", []string{"docs.get", "git.get", "git.create_tag", "mail.send"}},
	} {
		var names []string
		for i := range c.policies {
			if c.policies[i].Name == "" {
				c.policies[i].Name = strconv.Itoa(i)
			}
			names = append(names, c.policies[i].Name)
		}
		s := rules(c.policies).For(subject{policies: names})
		servers := ""
		for _, server := range []string{"docs", "git", "mail", "git.x"} {
			if s.Server(server) {
				servers += " " + server
			}
		}
		var tools []string
		for _, tool := range []struct {
			server, name string
			readOnly     bool
		}{{"docs", "get", true}, {"git", "get", true}, {"git", "create_tag", false}, {"mail", "send", false}, {"git.x", "get", true}} {
			allowed := s.Tool(tool.server, tool.name, tool.readOnly)
			if allowed {
				tools = append(tools, tool.server+"."+tool.name)
			}
			if d := s.Decide(tool.server, tool.name, tool.readOnly); d.Allowed != allowed || (d.Reason == "") != allowed || (d.Reason == ReasonServer) == s.Server(tool.server) {
				t.Errorf("%+v: %+v for %+v", c.policies, d, tool)
			}
			if s.Whole(tool.server) && !allowed {
				t.Errorf("%+v has all of %s, and not %s", c.policies, tool.server, tool.name)
			}
		}
		if len(servers) > 0 {
			servers = servers[1:]
		}
		if servers != c.servers || !slices.Equal(tools, c.tools) {
			t.Errorf("%+v: servers %q, tools %q; want %q, %q", c.policies, servers, tools, c.servers, c.tools)
		}
	}
}

// Of what is decided, the policy and its rule are told.
func TestWhichRuleDecides(t *testing.T) {
	r := rules(append([]config.Policy{
		{Name: "grouped", Groups: []string{"reading"}}, {Name: "peek", ReadOnly: true}, {Name: "named", Servers: []string{"docs"}, Groups: []string{"reading"}},
	}, both...))
	for _, c := range []struct {
		policies     []string
		server, tool string
		want         Decision
	}{
		{[]string{"write"}, "git", "create_tag", Decision{Allowed: true, Policies: []string{"write"}, Rule: "tools git.create_*"}},
		{[]string{"read", "write"}, "mail", "send", Decision{Allowed: true, Policies: []string{"write"}, Rule: "tools mail.*"}},
		{[]string{"read", "write"}, "git", "get", Decision{Allowed: true, Policies: []string{"read"}, Rule: "readOnly"}},
		{[]string{"read"}, "docs", "", Decision{Allowed: true, Policies: []string{"read"}, Rule: "servers"}},
		{[]string{"grouped"}, "git", "create_tag", Decision{Allowed: true, Policies: []string{"grouped"}, Rule: "groups reading"}},
		{[]string{"named"}, "docs", "put", Decision{Allowed: true, Policies: []string{"named"}, Rule: "servers"}},
		{[]string{"peek"}, "git", "get", Decision{Allowed: true, Policies: []string{"peek"}, Rule: "readOnly"}},
		{[]string{"all"}, "git", "create_tag", Decision{Allowed: true, Policies: []string{"all"}, Rule: "all"}},
		{[]string{"read", "write"}, "git", "delete", Decision{Policies: []string{"read", "write"}, Reason: ReasonTool}},
		{[]string{"read"}, "mail", "send", Decision{Policies: []string{"read"}, Reason: ReasonServer}},
		{nil, "git", "get", Decision{Reason: ReasonNothing}},
	} {
		if got := r.For(subject{policies: c.policies}).Decide(c.server, c.tool, c.tool == "get"); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v for %s.%s: %+v, want %+v", c.policies, c.server, c.tool, got, c.want)
		}
	}
}

func TestTheMostGenerousLimitCounts(t *testing.T) {
	r := rules(both)
	if got, want := r.For(subject{policies: []string{"read"}}).Limits(), (Limits{Rate: 20, Burst: 20, Sessions: 2}); *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := r.For(subject{policies: []string{"write", "read"}}).Limits(), (Limits{Rate: 20, Burst: 50}); *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := r.For(subject{policies: []string{"write", "all"}}).Limits(); got != nil {
		t.Errorf("%+v has a limit", got)
	}
}

func TestScopesAreBounded(t *testing.T) {
	var policies []config.Policy
	for i := range 2 * maxScopes {
		policies = append(policies, config.Policy{Name: strconv.Itoa(i)})
	}
	r := rules(policies)
	for i := range policies {
		r.For(subject{policies: []string{policies[i].Name}})
	}
	if len(r.scopes) > maxScopes {
		t.Errorf("%d scopes are kept", len(r.scopes))
	}
}

func BenchmarkFor(b *testing.B) {
	r := rules(both, config.Grant{Label: "token:ci", Policies: []string{"read"}})
	who := subject{labels: []string{"token:ci"}}
	b.ReportAllocs()
	for b.Loop() {
		r.For(who)
	}
}
