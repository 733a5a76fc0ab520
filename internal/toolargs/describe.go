package toolargs

import (
	"encoding/json"
	"slices"
	"strings"
)

// A Described is what people read of one argument of a tool.
type Described struct {
	Name string
	Text string // "integer, required; how many"
}

// Describe lists the arguments that a schema names, by their names.
func Describe(input json.RawMessage) []Described {
	s := schemas{root: input}
	root := s.read(input)
	var all []Described
	for _, name := range s.names(input) {
		property := s.read(root.Properties[name])
		text := s.typeText(root.Properties[name])
		if slices.Contains(root.Required, name) {
			text += ", required"
		}
		if len(property.Default) > 0 {
			text += ", default " + string(property.Default)
		}
		if property.Description != "" {
			text += "; " + strings.Join(strings.Fields(property.Description), " ")
		}
		all = append(all, Described{name, text})
	}
	return all
}

// typeText names what a schema allows: "string or null", "one of 1, 2".
func (s schemas) typeText(raw json.RawMessage) string {
	got, may := s.read(raw), s.allows(raw, 0)
	if listed := got.listed(); len(listed) > 0 {
		var values []string
		for _, v := range listed {
			values = append(values, string(v))
		}
		return "one of " + strings.Join(values, ", ")
	}
	if items := s.allows(got.Items, 0); may == anArray && items != anything {
		return "array of " + items.String()
	}
	if may == anything {
		return "anything"
	}
	return may.String()
}
