package settings

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/conf/expand"
	"github.com/everline/everline/internal/conf/tree"
)

// Effective returns the configuration as one everline.json: what the files
// came to, with secrets replaced by "***". Where all is true it has every
// setting, else those that are not the default.
func Effective(c *config.Config, all bool) []byte {
	shown := c.Redacted()
	var servers tree.Entry
	for _, s := range shown.Servers {
		servers = append(servers, tree.Member{Key: s.Name, Value: serverEntry(s, all, escaped)})
	}
	var file tree.Entry
	whole, plain := reflect.ValueOf(*shown), reflect.ValueOf(*config.New())
	top := sectionEntry(SectionTop, whole, plain, all, escaped)
	top = append(top, accessEntry(shown)...)
	if audit := sectionEntry(SectionAudit, whole, plain, all, escaped); len(audit) > 0 {
		top = append(top, tree.Member{Key: "audit", Value: audit})
	}
	if len(top) > 0 {
		file = append(file, tree.Member{Key: "everline", Value: top})
	}
	file = append(file, tree.Member{Key: "mcpServers", Value: servers})
	return []byte(file.Text("", "  ") + "\n")
}

// accessEntry is what the configuration says of who may come in; nothing where it
// says nothing.
func accessEntry(c *config.Config) tree.Entry {
	v, plain := reflect.ValueOf(*c), reflect.ValueOf(*config.New())
	var e tree.Entry
	if c.TLS != (config.TLS{}) {
		e = append(e, tree.Member{Key: "tls", Value: sectionEntry(SectionTLS, v, plain, false, escaped)})
	}
	if !c.Access.Demanded {
		return e
	}
	auth := sectionEntry(SectionClientAuth, v, plain, false, escaped)
	if len(c.Access.Issuers) > 0 {
		var all tree.Entries
		for _, i := range c.Access.Issuers {
			all = append(all, sectionEntry(SectionIssuer, reflect.ValueOf(i), reflect.ValueOf(config.NewIssuer("")), false, escaped))
		}
		auth = append(auth, tree.Member{Key: "oidc", Value: all})
	}
	if c.Access.MTLS != "" {
		auth = append(auth, tree.Member{Key: "mtls", Value: tree.Pairs("subject", string(c.Access.MTLS))})
	}
	if auth == nil {
		auth = tree.Entry{}
	}
	return append(e, tree.Member{Key: "auth", Value: auth})
}

// serverEntry is the server as it would be written into our own file, with all
// settings or those that are not the default, and its secrets in plain. write
// gives texts in which there may be a reference the form of the file.
func serverEntry(s config.Server, all bool, write func(any) any) tree.Entry {
	v, plain := reflect.ValueOf(s), reflect.ValueOf(s.Defaults())
	var e tree.Entry
	if s.Transport != config.TransportAuto && (all || s.Transport != config.TransportStdio) {
		e = append(e, tree.Member{Key: "type", Value: string(s.Transport)})
	}
	e = append(e, sectionEntry(SectionStandard, v, plain, false, write)...)
	own := sectionEntry(SectionServer, v, plain, all, write)
	for _, inner := range []struct{ key, section string }{{"auth", SectionAuth}, {"tls", SectionServerTLS}, {"limits", SectionLimits}, {"retry", SectionRetry}, {"tools", SectionTools}} {
		if part := sectionEntry(inner.section, v, plain, all && inner.section == SectionRetry, write); len(part) > 0 {
			own = append(own, tree.Member{Key: inner.key, Value: part})
		}
	}
	if s.Sandbox != nil {
		own = append(own, tree.Member{Key: "sandbox", Value: sectionEntry(SectionSandbox, reflect.ValueOf(*s.Sandbox), reflect.ValueOf(config.Sandbox{Net: true}), all, write)})
	}
	if len(own) > 0 {
		e = append(e, tree.Member{Key: "everline", Value: own})
	}
	return e
}

// sectionEntry writes the settings of one section that differ from the
// standard, or all of them.
func sectionEntry(section string, v, standard reflect.Value, all bool, write func(any) any) tree.Entry {
	var e tree.Entry
	for _, s := range Settings() {
		if s.Section != section || s.field == "" {
			continue
		}
		is := fieldOf(v, s.field)
		if !all && (reflect.DeepEqual(is.Interface(), fieldOf(standard, s.field).Interface()) || isEmpty(is)) {
			continue
		}
		written := value(is, s.Type)
		if section == SectionStandard || section == SectionAuth || section == SectionServerTLS || s.Key == "messageUrl" {
			written = write(written)
		}
		if written != nil {
			e = append(e, tree.Member{Key: s.Key, Value: written})
		}
	}
	return e
}

// isEmpty tells whether a list or map has nothing in it, which is as good as
// its not being there.
func isEmpty(v reflect.Value) bool {
	return (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

// value gives a field in the form in which a file has it; nil for nothing.
func value(v reflect.Value, kind string) any {
	if isEmpty(v) || v.Kind() == reflect.String && v.Len() == 0 {
		return nil
	}
	if v.Kind() == reflect.String {
		return v.String()
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return shortTime(x)
	case config.Replay:
		return x.String()
	case map[string]string:
		return mapEntry(x, func(s string) any { return s })
	case map[string][]string:
		return mapEntry(x, func(list []string) any { return list })
	case map[string]config.Replay:
		return mapEntry(x, func(r config.Replay) any { return r.String() })
	case []config.Group:
		return groupEntry(x)
	case []config.Policy:
		return policyEntry(x)
	case []config.Grant:
		return grantEntry(x)
	case config.Rate:
		if x == (config.Rate{}) {
			return nil
		}
		return x.String()
	case []string, bool, int, float64:
		return x
	case int64:
		return sizeText(x)
	default:
		panic(fmt.Sprintf("bug: a setting of type %s has no form (%s)", v.Type(), kind))
	}
}

func mapEntry[V any](m map[string]V, form func(V) any) tree.Entry {
	var e tree.Entry
	for _, k := range slices.Sorted(maps.Keys(m)) {
		e = append(e, tree.Member{Key: k, Value: form(m[k])})
	}
	return e
}

func groupEntry(groups []config.Group) tree.Entry {
	var e tree.Entry
	for _, g := range groups {
		servers := g.Servers
		if servers == nil {
			servers = []string{}
		}
		e = append(e, tree.Member{Key: g.Name, Value: tree.Pairs("servers", servers, "expose", string(g.Expose))})
	}
	return e
}

func policyEntry(policies []config.Policy) tree.Entry {
	var e tree.Entry
	for _, p := range policies {
		inner := sectionEntry(SectionPolicy, reflect.ValueOf(p), reflect.ValueOf(config.Policy{}), false, nil)
		if p.Servers != nil && len(p.Servers) == 0 {
			inner = append(inner, tree.Member{Key: "servers", Value: []string{}}) // which is none, and not all
		}
		if inner == nil {
			inner = tree.Entry{}
		}
		e = append(e, tree.Member{Key: p.Name, Value: inner})
	}
	return e
}

func grantEntry(grants []config.Grant) tree.Entry {
	var e tree.Entry
	for _, g := range grants {
		e = append(e, tree.Member{Key: g.Label, Value: g.Policies})
	}
	return e
}

// shortTime writes "1m30s" without the zeros that String has.
func shortTime(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// sizeText writes a number of bytes with the largest unit that fits.
func sizeText(n int64) any {
	for i, suffix := range []string{"GiB", "MiB", "KiB"} {
		if factor := int64(1) << (30 - 10*i); n > 0 && n%factor == 0 {
			return strconv.FormatInt(n/factor, 10) + suffix
		}
	}
	return int(n)
}

// escaped writes texts so that the reader finds no reference in them.
func escaped(v any) any {
	switch v := v.(type) {
	case string:
		return expand.EscapeReferences(v)
	case []string:
		words := make([]string, len(v))
		for i, s := range v {
			words[i] = expand.EscapeReferences(s)
		}
		return words
	case tree.Entry:
		e := make(tree.Entry, len(v))
		for i, m := range v {
			e[i] = tree.Member{Key: m.Key, Value: escaped(m.Value)}
		}
		return e
	default:
		return v
	}
}
