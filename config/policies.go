package config

import (
	globs "path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/typed"
)

// The policies that need no configuration.
const (
	PolicyAll  = "all"  // everything, without a limit
	PolicyNone = "none" // nothing
)

// A Policy says what whoever has it may see and use, and how much. What it does not
// restrict is free: one without Servers and Groups is for the servers that its Tools
// name, and one without these, too, for all.
type Policy struct {
	Name   string
	Origin Origin

	Servers  []string // by name; nil: see above
	Groups   []string // the servers of these groups, besides Servers
	Tools    []string // globs over SERVER.TOOL, in the server's own names; nil: all
	ReadOnly bool     // only tools that say of themselves that they change nothing

	Rate       Rate  // calls in a time; zero: no limit
	Burst      int   // calls that may come at the same moment; 0: those of the rate
	Concurrent int   // calls in flight; 0: no limit
	Sessions   int   // sessions at a time; 0: no limit of its own
	MaxBody    int64 // bytes of one message; 0: the limit of the endpoint
}

// A Rate is so many calls in a time. The zero value is no limit.
type Rate struct {
	Calls int
	Per   time.Duration // a second, a minute or an hour
}

// String reads "20/s"; "" for no limit.
func (r Rate) String() string {
	for unit, per := range rateUnits {
		if per == r.Per && r.Calls > 0 {
			return strconv.Itoa(r.Calls) + "/" + unit
		}
	}
	return ""
}

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// A Grant gives policies to whoever bears a label: "token:NAME", "scope:SCOPE",
// "claim:NAME=VALUE", "sub:SUBJECT", "mtls:NAME", "uid:N", "uid:self", "anonymous",
// or "*" for everybody.
type Grant struct {
	Label    string
	Policies []string // names; those of Config.Policies, PolicyAll and PolicyNone
}

// PolicyTool parts a glob of Policy.Tools into that of the server and that of the
// tool, at each dot: names of servers have dots, too.
func PolicyTool(glob string) (parts [][2]string) {
	for i := range len(glob) {
		if glob[i] == '.' && i > 0 && i+1 < len(glob) {
			parts = append(parts, [2]string{glob[:i], glob[i+1:]})
		}
	}
	return parts
}

// endpointAuth are the keys of "auth" at the top.
func endpointAuth(c *Config) []key {
	return []key{
		{"tokens", boolean(&c.Access.Tokens)},
		{"oidc", issuers(&c.Access.Issuers)},
		{"mtls", mtls(&c.Access)},
		{"policies", policies(&c.Policies)},
		{"grants", grants(&c.Grants)},
	}
}

// policies takes an object of policy names.
func policies(to *[]Policy) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.Object {
			return r.wrongKind(n, "an object of policies")
		}
		all := []Policy{}
		for _, f := range n.Fields {
			if tree.IsComment(f.Name) {
				continue
			}
			p := Policy{Name: f.Name, Origin: Origin{r.file, f.Pos.Line}}
			switch {
			case f.Name == PolicyAll || f.Name == PolicyNone:
				return tree.Invalid(r.file, f.Pos, "give it another name", "the policy %q is built in", f.Name)
			case !groupName(f.Name):
				return tree.Invalid(r.file, f.Pos, "name it with letters, digits, '_' or '-'", "%q is no name of a policy", f.Name)
			case slices.ContainsFunc(all, func(o Policy) bool { return o.Name == f.Name }):
				return tree.Invalid(r.file, f.Pos, "keep one of them", "two policies are called %q", f.Name)
			}
			if err := r.strictObject(f.Value, "a policy", policyKeys(&p)); err != nil {
				return err
			}
			all = append(all, p)
		}
		slices.SortFunc(all, func(a, b Policy) int { return strings.Compare(a.Name, b.Name) })
		*to = all
		return nil
	}
}

// strictObject is object where a key that nobody knows is an error: it may be the
// restriction that somebody relies on.
func (r *reader) strictObject(n *tree.Node, where string, keys []key) *fault.Fault {
	for _, f := range n.Fields {
		if known := names(keys); !tree.IsComment(f.Name) && !slices.Contains(known, f.Name) {
			return tree.Invalid(r.file, f.Pos, "write one of "+strings.Join(known, ", "), "unknown key %q in %s%s", f.Name, where, typed.Meant(f.Name, known))
		}
	}
	return r.object(n, where, keys, nil)
}

func policyKeys(to *Policy) []key {
	return []key{
		{"servers", texts(&to.Servers)},
		{"groups", texts(&to.Groups)},
		{"tools", toolGlobs(&to.Tools)},
		{"readOnly", boolean(&to.ReadOnly)},
		{"rate", rate(&to.Rate)},
		{"burst", number(&to.Burst, 1)},
		{"concurrent", number(&to.Concurrent, 1)},
		{"sessions", number(&to.Sessions, 1)},
		{"maxBody", size(&to.MaxBody, 1024)},
	}
}

// toolGlobs takes globs over SERVER.TOOL.
func toolGlobs(to *[]string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if err := texts(to)(r, n); err != nil {
			return err
		}
		for i, glob := range *to {
			at := n.List[i].Pos
			if PolicyTool(glob) == nil {
				return tree.Invalid(r.file, at, "write "+strconv.Quote("*."+strings.Trim(glob, "."))+" for that tool of every server", "%q names no server: a tool is SERVER.TOOL", glob)
			}
			if _, err := globs.Match(glob, ""); err != nil {
				return tree.Invalid(r.file, at, "close its brackets", "%q is no glob", glob)
			}
		}
		return nil
	}
}

// rate takes "20/s", "100/m" or "1000/h".
func rate(to *Rate) setter {
	const remedy = `write calls in a second, a minute or an hour: "20/s", "100/m" or "1000/h"`
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.String {
			return r.wrongKind(n, `a rate like "20/s"`)
		}
		digits, unit, _ := strings.Cut(n.Text, "/")
		calls, err := strconv.Atoi(digits)
		if per := rateUnits[unit]; err == nil && per > 0 && calls > 0 && calls <= maxRate {
			*to = Rate{calls, per}
			return nil
		}
		return tree.Invalid(r.file, n.Pos, remedy, "%q is no rate", n.Text)
	}
}

const maxRate = 1_000_000 // calls, in whatever time

// labelKinds are what stands before the colon of a label.
var labelKinds = []string{"token", "scope", "claim", "sub", "mtls", "uid"}

// grants takes an object of labels, each with a policy or a list of them.
func grants(to *[]Grant) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.Object {
			return r.wrongKind(n, "an object of grants")
		}
		all := []Grant{}
		for _, f := range n.Fields {
			if tree.IsComment(f.Name) {
				continue
			}
			g := Grant{Label: f.Name}
			if problem := labelProblem(f.Name); problem != "" {
				return tree.Invalid(r.file, f.Pos, `write "token:NAME", "scope:SCOPE", "claim:NAME=VALUE", "sub:SUBJECT", "mtls:NAME", "uid:N", "uid:self", "anonymous" or "*"`, "%s", problem)
			}
			if slices.ContainsFunc(all, func(o Grant) bool { return o.Label == f.Name }) {
				return tree.Invalid(r.file, f.Pos, "write the policies in one list", "%q is there twice", f.Name)
			}
			if f.Value.Kind == tree.String {
				g.Policies = []string{f.Value.Text}
			} else if err := texts(&g.Policies)(r, f.Value); err != nil {
				return r.wrongKind(f.Value, "the name of a policy, or a list of them")
			}
			all = append(all, g)
		}
		*to = all
		return nil
	}
}

func labelProblem(label string) string {
	kind, rest, parted := strings.Cut(label, ":")
	switch {
	case label == "*" || label == "anonymous":
		return ""
	case !parted || !slices.Contains(labelKinds, kind):
		return strconv.Quote(label) + " is no label" + typed.Meant(kind, append([]string{"anonymous"}, labelKinds...))
	case rest == "":
		return strconv.Quote(label) + " names nobody"
	case kind == "claim" && !strings.Contains(strings.Trim(rest, "="), "="):
		return strconv.Quote(label) + " has no value of the claim"
	case kind == "uid" && rest != "self":
		if _, err := strconv.ParseUint(rest, 10, 32); err != nil {
			return strconv.Quote(label) + " is no number of a user"
		}
	}
	return ""
}

// endpointAuthAt reads "auth" at the top.
func endpointAuthAt(c *Config) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		c.Access.Demanded = true
		if err := r.strictObject(n, `"auth"`, endpointAuth(c)); err != nil {
			return err
		}
		return r.checkGrants(n.Get("grants"))
	}
}

// checkGrants refuses grants of policies that there are not, once either key has
// been read: whichever may stand first.
func (r *reader) checkGrants(n *tree.Node) *fault.Fault {
	known := []string{PolicyAll, PolicyNone}
	for _, p := range r.cfg.Policies {
		known = append(known, p.Name)
	}
	for _, g := range r.cfg.Grants {
		for _, name := range g.Policies {
			if !slices.Contains(known, name) {
				return tree.Invalid(r.file, n.Get(g.Label).Pos, "write one of "+strings.Join(known, ", "), "%q is granted %q, and no policy is called so%s", g.Label, name, typed.Meant(name, known))
			}
		}
	}
	return nil
}

// policyWarnings names what policies speak of and nobody has.
func (c *Config) policyWarnings(servers []string) {
	var groups []string
	for _, g := range c.Groups {
		groups = append(groups, g.Name)
	}
	warn := func(p Policy, kind, name string, known []string) {
		help := typed.Meant(name, known)
		if name == "*" {
			help = `; for all of them leave "` + kind + `s" out`
		}
		c.Warnings = append(c.Warnings, Warning{
			Origin: p.Origin, Text: "the policy " + p.Name + " names the " + kind + " " + name + ", which is not configured" + help,
		})
	}
	for _, p := range c.Policies {
		for _, name := range p.Servers {
			if !slices.Contains(servers, name) {
				warn(p, "server", name, servers)
			}
		}
		for _, name := range p.Groups {
			if !slices.Contains(groups, name) {
				warn(p, "group", name, groups)
			}
		}
		for _, glob := range p.Tools {
			parts := PolicyTool(glob)
			if !slices.ContainsFunc(parts, func(part [2]string) bool { return matchesOne(part[0], servers) }) {
				warn(p, "server", parts[0][0], servers)
				continue
			}
			if own := c.serversOf(p); own != nil && !slices.ContainsFunc(parts, func(part [2]string) bool { return matchesOne(part[0], own) }) {
				c.Warnings = append(c.Warnings, Warning{
					Origin: p.Origin, Text: "the policy " + p.Name + " grants the tools " + strconv.Quote(glob) + ", which are of none of the servers that it names",
				})
			}
		}
	}
}

// serversOf are the servers that a policy names, by groups, too; nil if it names none.
func (c *Config) serversOf(p Policy) []string {
	if p.Servers == nil && p.Groups == nil {
		return nil
	}
	names := append([]string{}, p.Servers...)
	for _, name := range p.Groups {
		g, _ := c.Group(name)
		names = append(names, g.Servers...)
	}
	return names
}

func matchesOne(glob string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		ok, err := globs.Match(glob, name)
		return err == nil && ok
	})
}
