package settings

import (
	"bytes"

	"github.com/everline/everline/internal/conf/tree"
)

// SchemaID is where the JSON Schema of our own file is published.
const SchemaID = "https://raw.githubusercontent.com/everline/everline/main/docs/reference/everline.schema.json"

// Schema returns the JSON Schema (2020-12) of our own file, made of Settings.
// Like the reader it allows keys that it does not know.
func Schema() []byte {
	object := func(section string, more tree.Entry) tree.Entry {
		return tree.Pairs("type", "object", "properties", append(properties(section), more...))
	}
	group := tree.Pairs("anyOf", tree.Entries{
		tree.Pairs("type", "array", "items", tree.Pairs("type", "string")),
		object(SectionGroup, nil),
	})
	server := object(SectionStandard, tree.Pairs("everline", object(SectionServer, tree.Pairs(
		"auth", object(SectionAuth, nil), "tls", object(SectionServerTLS, nil),
		"sandbox", closed(object(SectionSandbox, nil)),
		"limits", object(SectionLimits, nil),
		"retry", object(SectionRetry, nil),
		"tools", object(SectionTools, nil),
	))))
	servers := tree.Pairs("type", "object", "additionalProperties", tree.Pairs("$ref", "#/$defs/server"))
	schema := tree.Pairs(
		"$schema", "https://json-schema.org/draft/2020-12/schema",
		"$id", SchemaID,
		"title", "everline.json",
		"description", "The configuration of everline: the mcpServers that every client knows, with settings of its own under everline.",
		"type", "object",
		"properties", tree.Pairs(
			"$schema", tree.Pairs("type", "string"),
			"everline", object(SectionTop, tree.Pairs(
				"groups", tree.Pairs("type", "object", "additionalProperties", group, "description", docOf(SectionTop, "groups")),
				"tls", closed(object(SectionTLS, nil)),
				"auth", clientAuth(object),
				"audit", tree.Pairs("anyOf", tree.Entries{
					tree.Pairs("type", "string", "enum", settingOf(SectionAudit, "level").Words),
					closed(object(SectionAudit, nil)),
				}, "description", docOf(SectionTop, "audit")),
			)),
			"mcpServers", servers,
			"servers", servers,
		),
		"$defs", tree.Pairs("server", server),
	)
	var b bytes.Buffer
	b.WriteString(schema.Text("", "  "))
	b.WriteByte('\n')
	return b.Bytes()
}

// closed has no other keys.
func closed(e tree.Entry) tree.Entry {
	return append(e, tree.Member{Key: "additionalProperties", Value: false})
}

// clientAuth is the schema of "auth" at the top, where a key that is not known is an
// error.
func clientAuth(object func(section string, more tree.Entry) tree.Entry) tree.Entry {
	names := tree.Pairs("anyOf", tree.Entries{tree.Pairs("type", "string"), tree.Pairs("type", "array", "items", tree.Pairs("type", "string"))})
	return closed(object(SectionClientAuth, tree.Pairs(
		"oidc", tree.Pairs("type", "array", "items", closed(object(SectionIssuer, nil))),
		"mtls", closed(object(SectionMTLS, nil)),
		"policies", tree.Pairs("type", "object", "additionalProperties", closed(object(SectionPolicy, nil)), "description", docOf(SectionClientAuth, "policies")),
		"grants", tree.Pairs("type", "object", "additionalProperties", names, "description", docOf(SectionClientAuth, "grants")),
	)))
}

func docOf(section, key string) string { return settingOf(section, key).Doc }

func settingOf(section, key string) Setting {
	for _, s := range Settings() {
		if s.Section == section && s.Key == key {
			return s
		}
	}
	return Setting{}
}

// properties are the settings of a section; objects in it have a section of their own.
func properties(section string) tree.Entry {
	var e tree.Entry
	for _, s := range Settings() {
		if s.Section != section || s.Type == TypeObject {
			continue
		}
		shape := shapeOf(s)
		shape = append(shape, tree.Member{Key: "description", Value: s.Doc})
		e = append(e, tree.Member{Key: s.Key, Value: shape})
	}
	return e
}

// shapeOf is the schema of one value. Where the reader takes more than one form, so
// does the schema: an editor must not mark what works.
func shapeOf(s Setting) tree.Entry {
	texts := tree.Pairs("type", "string")
	switch s.Type {
	case TypeBool:
		return tree.Pairs("type", "boolean")
	case TypeNumber:
		return tree.Pairs("type", []string{"integer", "string"}, "minimum", 0)
	case TypeFraction:
		return tree.Pairs("type", "number", "minimum", 0)
	case TypeSize:
		return tree.Pairs("type", []string{"integer", "string"}, "minimum", 0, "examples", []string{"64MiB"})
	case TypeTime:
		return tree.Pairs("type", []string{"string", "number"}, "minimum", 0, "examples", []string{"30s", "5m"})
	case TypeWord:
		words := s.Words
		if s.Key == "type" && s.Section == SectionStandard {
			return tree.Pairs("type", "string", "examples", words) // clients have further words for the same
		}
		return tree.Pairs("type", "string", "enum", words)
	case TypeTexts:
		return tree.Pairs("type", "array", "items", tree.Pairs("type", scalars(s)))
	case TypeTextMap:
		return tree.Pairs("type", "object", "additionalProperties", tree.Pairs("type", scalars(s)))
	case TypeRate:
		return tree.Pairs("type", "string", "examples", []string{"20/s", "100/m"})
	case TypeTextLists:
		return tree.Pairs("type", "object", "additionalProperties", tree.Pairs("type", "array", "items", texts))
	case TypeReplays:
		return tree.Pairs("type", "object", "additionalProperties", tree.Pairs("type", "string", "enum", s.Words))
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
