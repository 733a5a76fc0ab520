package catalog

import (
	"regexp"
	"strings"
	"sync"
)

// A template tells which URIs a resource template (RFC 6570) may expand to,
// well enough to find the owner of a URI. It extracts no values.
type template struct {
	prefix string // the text before the first expression
	expr   func() *regexp.Regexp
}

// newTemplate does not compile yet: most templates are never asked for.
func newTemplate(uri string) template {
	prefix, _, _ := strings.Cut(uri, "{")
	return template{prefix: prefix, expr: sync.OnceValue(func() *regexp.Regexp { return compile(uri) })}
}

func (t *template) match(uri string) bool {
	if !strings.HasPrefix(uri, t.prefix) {
		return false
	}
	expr := t.expr()
	return expr != nil && expr.MatchString(uri)
}

// compile returns nil for a template that is malformed or too large; it
// matches nothing.
func compile(uri string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for rest := uri; rest != ""; {
		literal, after, open := strings.Cut(rest, "{")
		b.WriteString(regexp.QuoteMeta(literal))
		if !open {
			break
		}
		name, tail, closed := strings.Cut(after, "}")
		if !closed || name == "" {
			return nil
		}
		b.WriteString(expansion(name))
		rest = tail
	}
	expr, err := regexp.Compile(b.String() + `\z`)
	if err != nil {
		return nil
	}
	return expr
}

// expansion is what an expression may expand to, by its operator (RFC 6570
// section 3.2). Values of undefined variables expand to nothing, but for a
// plain {var} and {+var} at least one character is asked for: a template
// whose variable is empty is no address of anything.
func expansion(expression string) string {
	switch expression[0] {
	case '+':
		return `.+`
	case '#':
		return `(?:#.*)?`
	case '.':
		return `(?:\.[^/?#]*)?`
	case '/':
		return `(?:/[^?#]*)?`
	case ';':
		return `(?:;[^/?#]*)?`
	case '?':
		return `(?:\?[^#]*)?`
	case '&':
		return `(?:&[^#]*)?`
	default:
		return `[^/?#]+`
	}
}
