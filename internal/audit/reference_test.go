package audit

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

const page = "../../docs/reference/audit"

// TestPage: the page names every member of a record, and no other.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page + ".md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	in := false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "## "):
			in = line == "## A line\n"
		case in && strings.HasPrefix(line, "| `"):
			names, _, _ := strings.Cut(line[2:], " | ")
			for name := range strings.SplitSeq(names, ", ") {
				documented[strings.Trim(name, "`")] = true
			}
		}
	}
	for _, v := range []any{Record{}, Actor{}, Target{}, Request{}, Result{}, Change{}} {
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if !documented[name] {
				t.Errorf("%s.%s is not on the page", typ.Name(), name)
			}
		}
	}
	for _, name := range append([]string{Start, Stop, Lost, Torn, Pruned}, Types...) {
		if !bytes.Contains(text, []byte("`"+name+"`")) {
			t.Errorf("%s is not on the page", name)
		}
	}
}

// TestSchema publishes the form of a line, and asks it about one.
func TestSchema(t *testing.T) {
	schema := schemaOf(reflect.TypeOf(Record{}))
	schema["$schema"], schema["title"] = "https://json-schema.org/draft/2020-12/schema", "A line of everline's audit record"
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *rewrite {
		if err := os.WriteFile(page+".schema.json", text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadFile(page + ".schema.json"); err != nil || !bytes.Equal(there, text) {
		t.Errorf("audit.schema.json is not what the code says; run go test ./internal/audit -rewrite: %v", err)
	}
}

func schemaOf(typ reflect.Type) map[string]any {
	switch {
	case typ.Kind() == reflect.Pointer:
		return schemaOf(typ.Elem())
	case typ == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case typ.Kind() == reflect.Struct:
		properties, required := map[string]any{}, []string{}
		for i := range typ.NumField() {
			name, options, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			properties[name] = schemaOf(typ.Field(i).Type)
			if options == "" {
				required = append(required, name)
			}
		}
		return map[string]any{"type": "object", "properties": properties, "required": required}
	case typ.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(typ.Elem())}
	case typ.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case typ.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case typ.Kind() == reflect.Float64:
		return map[string]any{"type": "number"}
	default:
		return map[string]any{"type": "integer", "minimum": 0}
	}
}
