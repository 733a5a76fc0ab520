package expand

import (
	"fmt"
	"strings"
)

// A value that a reference gave stands in the text of a URL between these two
// characters, which are for private use, until the URL is put together.
const (
	dataOpen  = "\ue002"
	dataClose = "\ue003"
)

// AsData marks a value that a reference gave.
func AsData(v string) string {
	return dataOpen + strings.NewReplacer(dataOpen, "", dataClose, "").Replace(v) + dataClose
}

// Characters that parts of a URL hold as they are (RFC 3986, sections 3.2.1, 3.3 and 3.4).
const (
	Unreserved = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
	InPath     = Unreserved + "/!$&'()*+,;=:@"
	InQuery    = Unreserved + "/:@," // what else is allowed there has a meaning for some server
)

type urlPart uint8

const (
	schemePart urlPart = iota
	hostPart
	pathPart
	queryPart
	fragmentPart
)

// A urlBuilder puts a URL together from what a file says, in which only what no
// URL may hold is encoded, and from values, which are data in the place where
// they stand.
type urlBuilder struct {
	strings.Builder
	part urlPart
	unix bool // the path and query of the server are in the fragment
}

// URL puts a text with marked values together.
func URL(marked string) string {
	b := &urlBuilder{}
	text := strings.TrimSpace(marked)
	if strings.HasPrefix(text, "/") {
		b.part = pathPart // relative
	}
	for text != "" {
		written, behind, found := strings.Cut(text, dataOpen)
		b.written(written)
		if !found {
			break
		}
		value, rest, _ := strings.Cut(behind, dataClose)
		b.data(value, rest)
		text = rest
	}
	return b.String()
}

// written adds a part that is meant as a URL already.
func (b *urlBuilder) written(text string) {
	for i := range len(text) {
		c := text[i]
		switch {
		case b.part <= hostPart, c < ' ', c == 0x7f: // nothing can be encoded there; control characters are refused later
			b.WriteByte(c)
		case c == '%' && !isEscape(text[i:]), strings.IndexByte(" \"<>\\^`{|}", c) >= 0, c > 0x7f:
			b.escape(c)
		default:
			b.WriteByte(c)
		}
		b.step(c)
	}
}

func (b *urlBuilder) escape(c byte) { fmt.Fprintf(b, "%%%02X", c) }

func isEscape(text string) bool {
	const hex = "0123456789abcdefABCDEF"
	return len(text) > 2 && strings.IndexByte(hex, text[1]) >= 0 && strings.IndexByte(hex, text[2]) >= 0
}

// step finds the part of the URL that begins with or behind a character.
func (b *urlBuilder) step(c byte) {
	switch {
	case b.part == schemePart:
		if scheme, ok := strings.CutSuffix(b.String(), "://"); ok {
			b.part, b.unix = hostPart, scheme == "unix"
		}
	case c == '#' && b.part != fragmentPart:
		b.part = fragmentPart
		if b.unix {
			b.part, b.unix = pathPart, false
		}
	case c == '?' && b.part < queryPart && !b.unix:
		b.part = queryPart
	case c == '/' && b.part == hostPart:
		b.part = pathPart
	}
}

// data adds the value of a reference; rest is what stands behind it.
func (b *urlBuilder) data(v, rest string) {
	switch {
	case b.part == hostPart && beforeHost(rest):
		b.userinfo(v, strings.HasPrefix(rest, "@"))
	case b.part <= hostPart:
		b.written(v) // a URL, or a part of one that has a structure
	case b.part == pathPart:
		b.encoded(v, InPath)
	case b.wholeParameters(v):
		b.encoded(v, InQuery+"&=%+")
	default:
		b.encoded(v, InQuery)
	}
}

// beforeHost tells whether the host comes behind a value, so that the value is
// of a user or a password.
func beforeHost(rest string) bool {
	for rest != "" {
		written, behind, found := strings.Cut(rest, dataOpen)
		if i := strings.IndexAny(written, "/?#@"); i >= 0 {
			return written[i] == '@'
		}
		if !found {
			return false
		}
		_, rest, _ = strings.Cut(behind, dataClose)
	}
	return false
}

// userinfo adds a user, a password, or, where one value is all that stands
// before the host, both of them.
func (b *urlBuilder) userinfo(v string, last bool) {
	if user, password, both := strings.Cut(v, ":"); both && last && strings.HasSuffix(b.String(), "://") {
		b.encoded(user, Unreserved)
		b.WriteByte(':')
		v = password
	}
	b.encoded(v, Unreserved)
}

// wholeParameters tells whether a value stands where a parameter begins and has
// its name in it.
func (b *urlBuilder) wholeParameters(v string) bool {
	so := b.String()
	return strings.Contains(v, "=") && (strings.HasSuffix(so, "?") || strings.HasSuffix(so, "&"))
}

func (b *urlBuilder) encoded(v, plain string) { b.WriteString(PercentEncoded(v, plain)) }

// PercentEncoded encodes every byte that is not plain.
func PercentEncoded(v, plain string) string {
	var b strings.Builder
	for i := range len(v) {
		if strings.IndexByte(plain, v[i]) >= 0 {
			b.WriteByte(v[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", v[i])
		}
	}
	return b.String()
}
