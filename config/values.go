package config

import (
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/typed"
)

// A setter puts one value of a file into its place, or says what is wrong with it.
type setter func(r *reader, n *node) *fault.Fault

// A key is a known key of an object.
type key struct {
	name string
	set  setter
}

func (r *reader) wrongKind(n *node, want string) *fault.Fault {
	return invalid(r.file, n.at, "write "+want+" there", "this must be %s, not %s", want, n.kind.article())
}

func boolean(to *bool) setter {
	return func(r *reader, n *node) *fault.Fault {
		if n.kind != boolNode {
			return r.wrongKind(n, "true or false")
		}
		*to = n.text == "true"
		return nil
	}
}

func text(to *string) setter {
	return func(r *reader, n *node) *fault.Fault {
		if n.kind != stringNode {
			return r.wrongKind(n, "a string")
		}
		*to = n.text
		return nil
	}
}

// hostPort takes the address of a listener.
func hostPort(to *string) setter {
	return func(r *reader, n *node) *fault.Fault {
		if n.kind != stringNode {
			return r.wrongKind(n, "a string")
		}
		const remedy = "write it like 127.0.0.1:7433"
		host, port, err := net.SplitHostPort(n.text)
		switch {
		case err != nil:
			return invalid(r.file, n.at, remedy, "the address %q is not host:port", n.text)
		case !isPort(port, 0):
			return invalid(r.file, n.at, remedy, "the port %q is not a number from 0 to 65535", port)
		case strings.ContainsAny(host, "/@ "):
			return invalid(r.file, n.at, remedy, "the host %q of the address cannot exist", host)
		}
		*to = n.text
		return nil
	}
}

// word takes one of a few strings.
func word(to *string, known ...string) setter {
	return func(r *reader, n *node) *fault.Fault {
		if n.kind != stringNode {
			return r.wrongKind(n, "a string")
		}
		for _, k := range known {
			if n.text == k {
				*to = k
				return nil
			}
		}
		return invalid(r.file, n.at, "write one of "+strings.Join(known, ", "), "%q is none of %s%s", n.text, strings.Join(known, ", "), meant(n.text, known))
	}
}

// meant is the suggestion at the end of a message; "" if there is none.
func meant(wrong string, known []string) string {
	if near := typed.Nearest(wrong, known); near != "" {
		return " (did you mean " + strconv.Quote(near) + "?)"
	}
	return ""
}

func texts(to *[]string) setter {
	return func(r *reader, n *node) *fault.Fault {
		if n.kind != listNode {
			return r.wrongKind(n, "a list of strings")
		}
		list := make([]string, 0, len(n.list))
		for _, e := range n.list {
			if e.kind != stringNode {
				return r.wrongKind(e, "a string")
			}
			list = append(list, e.text)
		}
		*to = list
		return nil
	}
}

func textMap(to *map[string]string) setter {
	return func(r *reader, n *node) *fault.Fault {
		if n.kind != objectNode {
			return r.wrongKind(n, "an object of strings")
		}
		m := make(map[string]string, len(n.fields))
		for _, f := range n.fields {
			if f.value.kind != stringNode {
				return r.wrongKind(f.value, "a string")
			}
			if _, twice := m[f.name]; !twice {
				m[f.name] = f.value.text
			}
		}
		*to = m
		return nil
	}
}

// maxNumber keeps numbers of a configuration far away from overflow.
const maxNumber = 1 << 40

// number takes a whole number of at least low.
func number(to *int, low int) setter {
	return func(r *reader, n *node) *fault.Fault {
		var v int64
		if err := size(&v, int64(low))(r, n); err != nil {
			return err
		}
		if v > math.MaxInt32 {
			return invalid(r.file, n.at, "write a smaller number", "%s is too large", n.text)
		}
		*to = int(v)
		return nil
	}
}

var units = []struct {
	suffix string
	factor int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}}

// size takes a whole number of at least low, or a string with a unit of bytes.
func size(to *int64, low int64) setter {
	return func(r *reader, n *node) *fault.Fault {
		digits, factor := n.text, int64(1)
		switch n.kind {
		case numberNode:
		case stringNode:
			for _, u := range units {
				if d, ok := strings.CutSuffix(digits, u.suffix); ok {
					digits, factor = strings.TrimSpace(d), u.factor
					break
				}
			}
		default:
			return r.wrongKind(n, "a whole number")
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(digits, "_", ""), 64)
		switch {
		case err != nil || v != math.Trunc(v) || math.Abs(v) > maxNumber:
			return invalid(r.file, n.at, "write a whole number there", "%q is not a usable whole number", n.text)
		case int64(v)*factor < low && v*float64(factor) <= maxNumber:
			return invalid(r.file, n.at, "write a number of at least "+strconv.FormatInt(low, 10), "%s is less than %d", n.text, low)
		case math.Abs(v)*float64(factor) > maxNumber:
			return invalid(r.file, n.at, "write a smaller number", "%s is too large", n.text)
		}
		*to = int64(v) * factor
		return nil
	}
}

// maxDuration is the longest time that a setting may name; 100 years.
const maxDuration = 100 * 365 * 24 * time.Hour

// duration takes "1m30s" or a number of seconds, of at least low.
func duration(to *time.Duration, low time.Duration) setter {
	const remedy = `write a time like "30s" or "5m", or a number of seconds`
	return func(r *reader, n *node) *fault.Fault {
		var d time.Duration
		switch n.kind {
		case stringNode:
			v, err := time.ParseDuration(n.text)
			if err != nil {
				return invalid(r.file, n.at, remedy, "%q is not a time", n.text)
			}
			d = v
		case numberNode:
			v, err := strconv.ParseFloat(strings.ReplaceAll(n.text, "_", ""), 64)
			if err != nil || math.IsNaN(v) || math.Abs(v) > maxDuration.Seconds() {
				return invalid(r.file, n.at, remedy, "%s seconds are not a usable time", n.text)
			}
			d = time.Duration(math.Round(v * float64(time.Second)))
		default:
			return r.wrongKind(n, "a time")
		}
		if d < low || d > maxDuration {
			return invalid(r.file, n.at, remedy, "%s is not between %s and 100 years", d, low)
		}
		*to = d
		return nil
	}
}

func replay(to *Replay) setter {
	return func(r *reader, n *node) *fault.Fault {
		var w string
		if err := word(&w, "safe", "never", "always")(r, n); err != nil {
			return err
		}
		for _, v := range []Replay{ReplaySafe, ReplayNever, ReplayAlways} {
			if v.String() == w {
				*to = v
			}
		}
		return nil
	}
}

func replayMap(to *map[string]Replay) setter {
	return func(r *reader, n *node) *fault.Fault {
		if n.kind != objectNode {
			return r.wrongKind(n, "an object of tool names")
		}
		m := make(map[string]Replay, len(n.fields))
		for _, f := range n.fields {
			var v Replay
			if err := replay(&v)(r, f.value); err != nil {
				return err
			}
			if _, twice := m[f.name]; !twice {
				m[f.name] = v
			}
		}
		*to = m
		return nil
	}
}
