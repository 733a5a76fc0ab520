package catalog

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/everline/everline/internal/wire"
)

// This file knows the values that strict clients ask of members that are
// optional: where one does not do, they refuse the whole list.

// oneOf returns a check for texts of which strict clients know these alone.
func oneOf(known ...string) func(raw []byte) string {
	return func(raw []byte) string {
		for _, k := range known {
			if text(raw) == k {
				return ""
			}
		}
		return "is none of " + strings.Join(known, ", ")
	}
}

// each returns a check for arrays.
func each(check func(raw []byte) string) func(raw []byte) string {
	return func(raw []byte) string {
		all, _ := elements(raw)
		for _, e := range all {
			if says := check(e); says != "" {
				return "has an element that " + says
			}
		}
		return ""
	}
}

func isText(raw []byte) string {
	if kindOf(raw) != '"' {
		return "is not a text"
	}
	return ""
}

// isSize: many clients read sizes into integers.
func isSize(raw []byte) string {
	if _, err := strconv.ParseInt(string(raw), 10, 64); err != nil {
		return "is not a whole number"
	}
	return ""
}

func isPriority(raw []byte) string {
	if n, err := strconv.ParseFloat(string(raw), 64); err != nil || n < 0 || n > 1 {
		return "is not between 0 and 1"
	}
	return ""
}

var moment = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):\d\d)$`)

// isMoment asks for a date and time with its offset (RFC 3339).
func isMoment(raw []byte) string {
	s := text(raw)
	_, err := time.Parse(time.RFC3339, s)
	if err != nil || !moment.MatchString(s) {
		return "is not a time with its offset (RFC 3339)"
	}
	return ""
}

// special are the schemes whose URIs name a host (URL Standard).
var special = map[string]bool{"http": true, "https": true, "ws": true, "wss": true, "ftp": true}

// notURI says why strict clients do not take a text as a URI; "" if they do.
// They read it as the URL Standard says: with a scheme, and a host that can be one.
func notURI(s string) string {
	scheme, rest, ok := strings.Cut(strings.TrimFunc(s, func(r rune) bool { return r <= ' ' }), ":")
	if !ok || !isScheme(scheme) {
		return "has no scheme"
	}
	scheme = strings.ToLower(scheme)
	isFile := scheme == "file"
	if special[scheme] || isFile {
		rest = strings.ReplaceAll(rest, `\`, "/")
	}
	slashes := len(rest) - len(strings.TrimLeft(rest, "/"))
	switch {
	case special[scheme]:
		rest = rest[slashes:]
	case slashes < 2:
		return ""
	default:
		rest = rest[2:]
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if isFile && (rest == "" || driveLetter.MatchString(rest)) || !special[scheme] && rest == "" {
		return ""
	}
	if sign := strings.LastIndexByte(rest, '@'); sign >= 0 && !isFile {
		rest = rest[sign+1:]
	}
	if !isHost(rest, special[scheme] || isFile, isFile) {
		return "has a host or port that cannot be one"
	}
	return ""
}

var driveLetter = regexp.MustCompile(`^[A-Za-z][:|]$`)

func isScheme(s string) bool {
	for i, r := range s {
		letter := r|0x20 >= 'a' && r|0x20 <= 'z'
		if !letter && (i == 0 || (r < '0' || r > '9') && r != '+' && r != '-' && r != '.') {
			return false
		}
	}
	return s != ""
}

// isHost reports whether a text is a host with a port that may be missing.
func isHost(s string, named, isFile bool) bool {
	var port string
	if end := strings.LastIndexByte(s, ']'); strings.HasPrefix(s, "[") && end > 0 {
		addr, err := netip.ParseAddr(s[1:end])
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return false
		}
		port = s[end+1:]
		if port != "" && port[0] != ':' {
			return false
		}
		port = strings.TrimPrefix(port, ":")
	} else {
		host, rest, _ := strings.Cut(s, ":")
		if port = rest; host == "" || isFile && strings.Contains(s, ":") {
			return false
		}
		forbidden := "\x00\t\n\r #/:<>?@[\\]^|"
		if named {
			forbidden += "%\x7f"
		}
		if strings.ContainsAny(host, forbidden) || named && (strings.IndexFunc(host, func(r rune) bool { return r < ' ' }) >= 0 || !isDomain(host)) {
			return false
		}
	}
	n, err := strconv.ParseUint(port, 10, 64)
	return port == "" || err == nil && n <= 65535
}

// isDomain refuses addresses of four numbers that are none, and names of other
// alphabets that not all readers can write in ASCII.
func isDomain(host string) bool {
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	last := strings.ToLower(labels[len(labels)-1])
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	strange := func(r rune) bool { return r > unicode.MaxASCII && !unicode.IsLetter(r) && !unicode.IsMark(r) }
	for _, l := range labels {
		if strings.HasPrefix(strings.ToLower(l), "xn--") || strings.IndexFunc(l, strange) >= 0 {
			return false
		}
	}
	return true
}

// clampNumbers writes numbers that no float64 holds as the largest that one
// does: readers into floats refuse the whole list.
func clampNumbers(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		end := i + 1
		switch kindOf(raw[i:]) {
		case '"':
			end = wire.ValueEnd(raw, i)
		case '0':
			end = wire.ValueEnd(raw, i)
			if _, err := strconv.ParseFloat(string(raw[i:end]), 64); err != nil {
				if raw[i] == '-' {
					out = append(out, '-')
				}
				out = append(out, "1.7976931348623157e+308"...)
				i = end
				continue
			}
		}
		out = append(out, raw[i:end]...)
		i = end
	}
	return out
}
