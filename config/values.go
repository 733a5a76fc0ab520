package config

import (
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/typed"
)

// boolean takes true or false, and no text that means it: "no" is a string in JSON
// and a boolean in some YAML.
func boolean(to *bool) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.Bool {
			return r.wrongKind(n, "true or false")
		}
		*to = n.Text == "true"
		return nil
	}
}

// text takes a string as it is.
func text(to *string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.String {
			return r.wrongKind(n, "a string")
		}
		*to = n.Text
		return nil
	}
}

// hostPort takes the address of a listener.
func hostPort(to *string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.String {
			return r.wrongKind(n, "a string")
		}
		const remedy = "write it like 127.0.0.1:7433"
		host, port, err := net.SplitHostPort(n.Text)
		switch {
		case err != nil:
			return tree.Invalid(r.file, n.Pos, remedy, "the address %q is not host:port", n.Text)
		case !isPort(port, 0):
			return tree.Invalid(r.file, n.Pos, remedy, "the port %q is not a number from 0 to 65535", port)
		case strings.ContainsAny(host, "/@ "):
			return tree.Invalid(r.file, n.Pos, remedy, "the host %q of the address cannot exist", host)
		}
		*to = n.Text
		return nil
	}
}

// word takes one of a few strings.
func word[T ~string](to *T, known ...T) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.String {
			return r.wrongKind(n, "a string")
		}
		if slices.Contains(known, T(n.Text)) {
			*to = T(n.Text)
			return nil
		}
		words := asTexts(known)
		return tree.Invalid(r.file, n.Pos, "write one of "+strings.Join(words, ", "), "%q is none of %s%s", n.Text, strings.Join(words, ", "), typed.Meant(n.Text, words))
	}
}

func asTexts[T ~string](words []T) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return all
}

// texts takes a list of strings.
func texts(to *[]string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.List {
			return r.wrongKind(n, "a list of strings")
		}
		list := make([]string, 0, len(n.List))
		for _, e := range n.List {
			if e.Kind != tree.String {
				return r.wrongKind(e, "a string")
			}
			list = append(list, e.Text)
		}
		*to = list
		return nil
	}
}

// textMap takes an object of strings. Of duplicate keys the first counts, as
// everywhere in a file.
func textMap(to *map[string]string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.Object {
			return r.wrongKind(n, "an object of strings")
		}
		m := make(map[string]string, len(n.Fields))
		for _, f := range n.Fields {
			if f.Value.Kind != tree.String {
				return r.wrongKind(f.Value, "a string")
			}
			if _, known := m[f.Name]; !known {
				m[f.Name] = f.Value.Text
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
	return func(r *reader, n *tree.Node) *fault.Fault {
		var v int64
		if err := size(&v, int64(low))(r, n); err != nil {
			return err
		}
		if v > math.MaxInt32 {
			return tree.Invalid(r.file, n.Pos, "write a smaller number", "%s is too large", n.Text)
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
	return func(r *reader, n *tree.Node) *fault.Fault {
		digits, factor := n.Text, int64(1)
		switch n.Kind {
		case tree.Number:
		case tree.String:
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
			return tree.Invalid(r.file, n.Pos, "write a whole number there", "%q is not a usable whole number", n.Text)
		case int64(v)*factor < low && v*float64(factor) <= maxNumber:
			return tree.Invalid(r.file, n.Pos, "write a number of at least "+strconv.FormatInt(low, 10), "%s is less than %d", n.Text, low)
		case math.Abs(v)*float64(factor) > maxNumber:
			return tree.Invalid(r.file, n.Pos, "write a smaller number", "%s is too large", n.Text)
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
	return func(r *reader, n *tree.Node) *fault.Fault {
		var d time.Duration
		switch n.Kind {
		case tree.String:
			v, err := time.ParseDuration(n.Text)
			if err != nil {
				return tree.Invalid(r.file, n.Pos, remedy, "%q is not a time", n.Text)
			}
			d = v
		case tree.Number:
			v, err := strconv.ParseFloat(strings.ReplaceAll(n.Text, "_", ""), 64)
			if err != nil || math.IsNaN(v) || math.Abs(v) > maxDuration.Seconds() {
				return tree.Invalid(r.file, n.Pos, remedy, "%s seconds are not a usable time", n.Text)
			}
			d = time.Duration(math.Round(v * float64(time.Second)))
		default:
			return r.wrongKind(n, "a time")
		}
		if d < low || d > maxDuration {
			return tree.Invalid(r.file, n.Pos, remedy, "%s is not between %s and 100 years", d, low)
		}
		*to = d
		return nil
	}
}

// replay takes one of the words of Replay.
func replay(to *Replay) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
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

// replayMap takes an object that has such a word for each tool.
func replayMap(to *map[string]Replay) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.Object {
			return r.wrongKind(n, "an object of tool names")
		}
		m := make(map[string]Replay, len(n.Fields))
		for _, f := range n.Fields {
			var v Replay
			if err := replay(&v)(r, f.Value); err != nil {
				return err
			}
			if _, known := m[f.Name]; !known {
				m[f.Name] = v
			}
		}
		*to = m
		return nil
	}
}

// isPort tells whether a text is the number of a port, from low on.
func isPort(text string, low int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= low && n <= 65535 && !strings.ContainsAny(text, "+-")
}

// mostProcessors is more than any machine has.
const mostProcessors = 4096

// processors takes a number of processors, which need not be whole.
func processors(to *float64) setter {
	const remedy = "write a number of processors, like 0.5 or 2"
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.Number {
			return r.wrongKind(n, "a number of processors")
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(n.Text, "_", ""), 64)
		if err != nil || math.IsNaN(v) || v < 0.01 || v > mostProcessors {
			return tree.Invalid(r.file, n.Pos, remedy, "%s is not between 0.01 and %d processors", n.Text, mostProcessors)
		}
		*to = v
		return nil
	}
}
