package config

import "bytes"

// SchemaID is where the JSON Schema of our own file is published.
const SchemaID = "https://raw.githubusercontent.com/everline/everline/main/docs/reference/everline.schema.json"

// Schema returns the JSON Schema (2020-12) of our own file, made of Settings.
// Like the reader it allows keys that it does not know.
func Schema() []byte {
	object := func(section string, more Entry) Entry {
		return Entry{{"type", "object"}, {"properties", append(properties(section), more...)}}
	}
	group := Entry{{"anyOf", list{
		Entry{{"type", "array"}, {"items", Entry{{"type", "string"}}}},
		object(SectionGroup, nil),
	}}}
	server := object(SectionStandard, Entry{{"everline", object(SectionServer, Entry{
		{"limits", object(SectionLimits, nil)},
		{"retry", object(SectionRetry, nil)},
		{"tools", object(SectionTools, nil)},
	})}})
	servers := Entry{{"type", "object"}, {"additionalProperties", Entry{{"$ref", "#/$defs/server"}}}}
	schema := Entry{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", SchemaID},
		{"title", "everline.json"},
		{"description", "The configuration of everline: the mcpServers that every client knows, with settings of its own under everline."},
		{"type", "object"},
		{"properties", Entry{
			{"$schema", Entry{{"type", "string"}}},
			{"everline", object(SectionTop, Entry{{"groups", Entry{
				{"type", "object"}, {"additionalProperties", group}, {"description", groupsDoc()},
			}}})},
			{"mcpServers", servers},
			{"servers", servers},
		}},
		{"$defs", Entry{{"server", server}}},
	}
	var b bytes.Buffer
	b.WriteString(schema.jsonText("", "  "))
	b.WriteByte('\n')
	return b.Bytes()
}

func groupsDoc() string {
	for _, s := range Settings() {
		if s.Section == SectionTop && s.Key == "groups" {
			return s.Doc
		}
	}
	return ""
}

// list is a list of entries in a schema.
type list []Entry

func properties(section string) Entry {
	var e Entry
	for _, s := range Settings() {
		if s.Section != section || s.Type == TypeObject {
			continue
		}
		shape := shapeOf(s)
		shape = append(shape, Member{"description", s.Doc})
		e = append(e, Member{s.Key, shape})
	}
	return e
}

func shapeOf(s Setting) Entry {
	texts := Entry{{"type", "string"}}
	switch s.Type {
	case TypeBool:
		return Entry{{"type", "boolean"}}
	case TypeNumber:
		return Entry{{"type", []string{"integer", "string"}}, {"minimum", 0}}
	case TypeFraction:
		return Entry{{"type", "number"}, {"minimum", 0}}
	case TypeSize:
		return Entry{{"type", []string{"integer", "string"}}, {"minimum", 0}, {"examples", []string{"64MiB"}}}
	case TypeTime:
		return Entry{{"type", []string{"string", "number"}}, {"minimum", 0}, {"examples", []string{"30s", "5m"}}}
	case TypeWord:
		words := s.Words
		if s.Key == "type" && s.Section == SectionStandard {
			return Entry{{"type", "string"}, {"examples", words}} // clients have further words for the same
		}
		return Entry{{"type", "string"}, {"enum", words}}
	case TypeTexts:
		return Entry{{"type", "array"}, {"items", Entry{{"type", scalars(s)}}}}
	case TypeTextMap:
		return Entry{{"type", "object"}, {"additionalProperties", Entry{{"type", scalars(s)}}}}
	case TypeReplays:
		return Entry{{"type", "object"}, {"additionalProperties", Entry{{"type", "string"}, {"enum", s.Words}}}}
	default:
		return texts
	}
}

// scalars are the JSON types of the texts of a setting: people write PORT: 3000
// in env, and null for nothing.
func scalars(s Setting) []string {
	switch s.Key {
	case "args":
		return []string{"string", "number", "boolean"}
	case "env", "headers":
		return []string{"string", "number", "boolean", "null"}
	default:
		return []string{"string"}
	}
}
