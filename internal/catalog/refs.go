package catalog

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"
)

// refs resolves the references of one schema. Only what is inside of the schema
// is found: nobody fetches what a server names, and a compiler that does not
// find it refuses the schema.
type refs struct {
	root    []byte
	ids     bool               // a reference by $id is found, too
	anchors map[string][]byte  // by name; nil before the first reference
	byID    map[string][]byte  // by $id
	copies  map[string]int     // how many schemas have a $id
	known   map[string]verdict // by reference
	aside   map[string]bool    // references out of the places of schemas
}

// unchecked returns what a reference leads to if it is outside of the places
// where schemas are, and nobody has asked for it yet; else nil.
func (r *refs) unchecked(ref string) []byte {
	_, pointer, _ := strings.Cut(ref, "#/")
	if pointer == "" || r.aside[ref] || atSchema(strings.Split(pointer, "/")) {
		return nil
	}
	if r.aside == nil {
		r.aside = map[string]bool{}
	}
	r.aside[ref] = true
	return r.find(ref)
}

// atSchema reports whether the steps of a pointer lead from schema to schema.
func atSchema(steps []string) bool {
	for len(steps) > 0 {
		n := 1
		switch keywords[steps[0]] {
		case schemaMap, patternMap, dependencyMap, schemaList:
			n = 2
		case itemsValue:
			if len(steps) > 1 && digitNext(steps[1]) {
				n = 2
			}
		case schemaOne:
		default:
			return false
		}
		if len(steps) < n {
			return false
		}
		steps = steps[n:]
	}
	return true
}

// A verdict is what is wrong with a reference; "" if nothing is.
type verdict struct {
	wrong string
	busy  bool // it is being followed
}

// newRefs returns nil for a schema without references.
func newRefs(root []byte, ids bool) *refs {
	if !bytes.Contains(root, []byte(`Ref"`)) && !bytes.Contains(root, []byte(`$ref"`)) && !bytes.Contains(root, []byte(`\u`)) {
		return nil
	}
	return &refs{root: root, ids: ids, known: map[string]verdict{}}
}

// wrong says what is wrong with a reference; "" if nothing is. A reference that
// comes back to itself before it has come to any other value never ends.
func (r *refs) wrong(ref string) string {
	v, known := r.known[ref]
	switch {
	case known && v.busy:
		return "refers to itself"
	case known:
		return v.wrong
	}
	target := r.find(ref)
	switch kindOf(target) {
	case 't', 'f':
		r.known[ref] = verdict{}
		return ""
	case '{':
	default:
		v.wrong = "leads nowhere"
		if !strings.HasPrefix(ref, "#") {
			v.wrong = "leads out of the schema"
		}
		r.known[ref] = v
		return v.wrong
	}
	r.known[ref] = verdict{busy: true}
	v.wrong = r.follow(target, 0)
	r.known[ref] = v
	return v.wrong
}

// follow looks at all schemas that apply to the same value as this one.
func (r *refs) follow(raw []byte, depth int) string {
	o, ok := parseObject(raw)
	if !ok {
		return ""
	}
	if depth == maxDepth {
		return "is nested too deeply"
	}
	for _, m := range o.members {
		wrong := ""
		switch m.Name {
		case "$ref", "$dynamicRef":
			if kindOf(m.Value) == '"' && r.wrong(text(m.Value)) == "refers to itself" {
				wrong = "refers to itself"
			}
		case "not", "if", "then", "else":
			wrong = r.follow(m.Value, depth+1)
		case "allOf", "anyOf", "oneOf":
			wrong = r.followAll(m.Value, depth)
		case "dependentSchemas":
			sub, _ := parseObject(m.Value)
			for _, s := range sub.members {
				wrong = max(wrong, r.follow(s.Value, depth+1))
			}
		}
		if wrong != "" {
			return wrong
		}
	}
	return ""
}

func (r *refs) followAll(raw []byte, depth int) (wrong string) {
	all, _ := elements(raw)
	for _, e := range all {
		wrong = max(wrong, r.follow(e, depth+1))
	}
	return wrong
}

// find returns what a reference stands for; nil if it is not in the schema.
func (r *refs) find(ref string) []byte {
	base, fragment, _ := strings.Cut(ref, "#")
	r.index()
	from := r.root
	if base != "" {
		if from = r.byID[base]; from == nil {
			return nil
		}
	}
	if fragment == "" {
		return from
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	if !strings.HasPrefix(fragment, "/") {
		return r.anchors[fragment]
	}
	return point(from, fragment)
}

// point follows a JSON pointer (RFC 6901).
func point(raw []byte, pointer string) []byte {
	for i, step := range strings.Split(pointer, "/") {
		if i == 0 {
			continue
		}
		if i > maxDepth {
			return nil
		}
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		if o, ok := parseObject(raw); ok {
			raw = o.get(step)
			continue
		}
		all, _ := elements(raw)
		n, err := strconv.Atoi(step)
		if err != nil || n < 0 || n >= len(all) {
			return nil
		}
		raw = all[n]
	}
	return raw
}

// byName reports whether references may need the names of schemas.
func (r *refs) byName() bool {
	r.index()
	return len(r.byID) > 0
}

// ambiguous reports whether several schemas have this $id.
func (r *refs) ambiguous(id string) bool {
	r.index()
	return r.copies[id] > 1
}

// index finds the names of all schemas, once.
func (r *refs) index() {
	if r.anchors != nil {
		return
	}
	r.anchors, r.byID, r.copies = map[string][]byte{}, map[string][]byte{}, map[string]int{}
	if bytes.Contains(r.root, []byte(`nchor"`)) || r.ids && bytes.Contains(r.root, []byte(`$id"`)) {
		r.names(r.root, 0)
	}
}

func (r *refs) names(raw []byte, depth int) {
	o, ok := parseObject(raw)
	if !ok || depth > maxDepth {
		return
	}
	for _, m := range o.members {
		switch k := keywords[m.Name]; k {
		case anchor:
			r.anchors[text(m.Value)] = raw
		case identity:
			if r.ids {
				r.byID[text(m.Value)] = raw
				r.copies[text(m.Value)]++
			}
		default:
			for _, sub := range k.schemas(m.Value) {
				r.names(sub, depth+1)
			}
		}
	}
}

// schemas returns the schemas in the value of a keyword of this kind.
func (k keywordKind) schemas(raw []byte) [][]byte {
	switch k {
	case schemaOne:
		return [][]byte{raw}
	case schemaMap, patternMap, dependencyMap:
		o, _ := parseObject(raw)
		var all [][]byte
		for _, m := range o.members {
			all = append(all, m.Value)
		}
		return all
	case schemaList, itemsValue:
		if all, ok := elements(raw); ok {
			return all
		}
		return [][]byte{raw}
	default:
		return nil
	}
}
