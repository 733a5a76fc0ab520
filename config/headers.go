package config

import (
	"net/http"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/tree"
)

// ownHeaders are the fields of a request that the transport sets, because they
// say how a message is framed, coded and answered.
var ownHeaders = []string{
	"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Idempotency-Key",
	"Keep-Alive", "Last-Event-Id", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "X-Idempotency-Key",
}

// OwnHeader tells whether a header of requests is the transport's own, so that
// a configured one is left out.
func OwnHeader(name string) bool {
	name = http.CanonicalHeaderKey(name)
	for _, own := range ownHeaders {
		if name == own {
			return true
		}
	}
	return strings.HasPrefix(name, "Mcp-")
}

// BadHeaderValue tells why a value cannot be sent in a header (RFC 9110,
// section 5.5); "" if it can.
func BadHeaderValue(v string) string {
	for i := range len(v) {
		switch c := v[i]; {
		case c == '\r' || c == '\n':
			return "a line end"
		case c < ' ' && c != '\t' || c == 0x7f:
			return "a control character"
		}
	}
	return ""
}

// headers takes the headers of a server. Those that cannot be sent make it
// misconfigured here, because no attempt could change that.
func (d *draft) headers(r *reader, n *tree.Node) *fault.Fault {
	if err := d.interpolatedMap(&d.Headers)(r, n); err != nil {
		return err
	}
	var first *fault.Fault
	seen := map[string]bool{}
	for _, f := range n.Fields {
		value, there := d.Headers[f.Name]
		if !there || f.Value.Kind == tree.Null {
			continue
		}
		value = strings.Trim(value, " \t\r\n")
		canonical := http.CanonicalHeaderKey(f.Name)
		again := seen[canonical] && !seen["="+f.Name]
		seen[canonical], seen["="+f.Name] = true, true
		switch problem := BadHeaderValue(value); {
		case again:
			r.warn(f.Pos, "duplicate header %q; the first one counts", canonical)
		case OwnHeader(f.Name):
			r.warn(f.Pos, "the header %q is left out: everline sets it itself", f.Name)
		case !isToken(f.Name) && first == nil:
			first = tree.Invalid(r.file, f.Pos, "correct the header's name", "%q cannot be the name of a header", f.Name)
		case problem != "" && first == nil:
			first = tree.Invalid(r.file, f.Value.Pos, "correct the header's value, or what its reference stands for", "the value of the header %q has %s in it", f.Name, problem)
		default:
			d.Headers[f.Name] = value
			continue
		}
		delete(d.Headers, f.Name)
	}
	return first
}

// isToken tells whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
