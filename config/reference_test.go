package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/tailscale/hujson"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/conf/settings"
)

// TestEverySettingIsDescribed compares the keys that the reader knows with the
// table behind the reference, both ways.
func TestEverySettingIsDescribed(t *testing.T) {
	described := map[string][]string{}
	for _, s := range settings.Settings() {
		described[s.Section] = append(described[s.Section], s.Key)
		if s.Doc == "" || !strings.HasSuffix(s.Doc, ".") {
			t.Errorf("%s.%s: %q is no sentence", s.Section, s.Key, s.Doc)
		}
	}
	for section, keys := range config.Keys() {
		for _, name := range keys {
			if !slices.Contains(described[section], name) {
				t.Errorf("%s.%s is not in Settings", section, name)
			}
		}
		for _, name := range described[section] {
			if !slices.Contains(keys, name) {
				t.Errorf("%s.%s is in Settings, and no key", section, name)
			}
		}
	}
}

// goldenFile compares a generated file with the one in the tree.
func goldenFile(t *testing.T, path string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the code says; run go test ./config -rewrite", path)
	}
}

func TestSchemaIsPublished(t *testing.T) {
	goldenFile(t, "../docs/reference/everline.schema.json", settings.Schema())
}

// TestSchemaAgreesWithTheReader asks both about every golden file.
func TestSchemaAgreesWithTheReader(t *testing.T) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(settings.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	schema.ID = "" // it is not fetched
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	good, bad := 0, 0
	files, _ := filepath.Glob("testdata/golden/*.json")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, readErr := config.Parse(file, data, testEnv)
		plain, err := hujson.Standardize(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
		var doc any
		if err != nil || json.Unmarshal(plain, &doc) != nil {
			continue // no JSON at all
		}
		verdict := resolved.Validate(doc)
		switch {
		case readErr == nil && !slices.ContainsFunc(c.Servers, func(s config.Server) bool { return s.Err != nil }):
			good++
			if verdict != nil {
				t.Errorf("%s is fine, and the schema says %v", file, verdict)
			}
		case filepath.Base(file) == "wrongtop.json":
			bad++
			if verdict == nil {
				t.Errorf("%s is not fine, and the schema says nothing", file)
			}
		}
	}
	if good < 5 || bad == 0 {
		t.Errorf("%d good files and %d bad ones were compared", good, bad)
	}
}

// TestEffectiveReadsBack writes every golden configuration out and reads it again.
func TestEffectiveReadsBack(t *testing.T) {
	files, _ := filepath.Glob("testdata/golden/*.*")
	n := 0
	for _, file := range files {
		if ext := filepath.Ext(file); ext == ".golden" || ext == ".txt" {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse(filepath.ToSlash(file), data, testEnv)
		if err != nil {
			continue
		}
		for _, all := range []bool{false, true} {
			text := settings.Effective(c, all)
			again, err := config.Parse("again.json", text, nil)
			if err != nil {
				t.Errorf("%s: %v\n%s", file, err, text)
				continue
			}
			for i := range again.Policies {
				again.Policies[i].Origin = c.Policies[i].Origin
			}
			if !reflect.DeepEqual(again.Access, c.Access) || again.TLS.CertFile == "" != (c.TLS.CertFile == "") {
				t.Errorf("%s (all %v): %+v, %+v became\n%s", file, all, c.Access, c.TLS, text)
			}
			if !reflect.DeepEqual(again.Policies, c.Policies) || !reflect.DeepEqual(again.Grants, c.Grants) {
				t.Errorf("%s (all %v): policies %+v and grants %+v became\n%s", file, all, c.Policies, c.Grants, text)
			}
			for _, s := range c.Servers {
				if s.Err != nil {
					continue
				}
				back, _ := again.Server(s.Name)
				if shown := s.Redacted(); !back.Redacted().Equal(shown) {
					t.Errorf("%s (all %v):\n%+v\nbecame\n%+v\n%s", file, all, shown, back, text)
				}
				n++
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d servers were compared", n)
	}
}

// TestReferencePage keeps docs/reference/config.md as the table says.
func TestReferencePage(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	titles := map[string]string{
		settings.SectionTop: "Settings of everline itself", settings.SectionGroup: "A group",
		settings.SectionClientAuth: "Who may come in, and what they may do", settings.SectionTLS: "Encryption of the endpoint",
		settings.SectionIssuer: "An issuer of tokens", settings.SectionMTLS: "Certificates of clients", settings.SectionPolicy: "A policy", settings.SectionAudit: "The record", settings.SectionStandard: "A server: what every client knows",
		settings.SectionServer: "A server: what is everline's own", settings.SectionAuth: "What a server is shown", settings.SectionServerTLS: "TLS of a server", settings.SectionSandbox: "The sandbox of a server", settings.SectionLimits: "Limits of a server", settings.SectionRetry: "Retries of a server",
		settings.SectionTools: "Tools of a server",
	}
	for _, section := range settings.Sections() {
		fmt.Fprintf(&b, "\n## %s\n\nUnder `%s`:\n\n| key | value | default | meaning |\n|---|---|---|---|\n", titles[section], section)
		for _, s := range settings.Settings() {
			if s.Section != section {
				continue
			}
			what := s.Type
			if s.Type == settings.TypeWord {
				what = "`" + strings.Join(s.Words, "`, `") + "`"
			}
			standard := s.Default()
			if standard != "" {
				standard = "`" + standard + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Key, what, standard, s.Doc)
		}
	}
	goldenFile(t, "../docs/reference/config.md", b.Bytes())
}

const referenceHead = `# everline.json

The file is JSON with comments and trailing commas; ` + "`.yaml`, `.yml` and `.toml`" + ` files are read by the same keys. It is a
superset of the ` + "`mcpServers`" + ` that every client knows, so a snippet from the README of any server works when it is pasted. What
is everline's own stands under a key ` + "`everline`" + `, at the top and in a server. A key that nobody knows is reported in a warning, with
its place, and changes nothing; under ` + "`everline.auth` and `everline.audit`" + ` it is an error, because it may be the restriction that you rely on. The files of ten clients are read as they are, too: see [how to use the file of a client](../how-to/clients.md).

With ` + "`\"$schema\": \"" + settings.SchemaID + "\"`" + `
editors complete the keys ([the schema](everline.schema.json)).

In ` + "`command`, `args`, `env`, `cwd`, `url` and `headers`" + ` these references are replaced: ` + "`${VAR}`, `${VAR:-default}`, `${VAR:?message}`," + `
` + "`${env:VAR}`, `${file:path}`" + `; ` + "`$$`" + ` is a dollar. A variable that is not set makes that one server ` + "`misconfigured`" + `, with file and line; the
others start.

A *time* is a string like ` + "`\"30s\"` or `\"1m30s\"`" + `, or a number of seconds. A *size* is a whole number of bytes, or a string like ` + "`\"64MiB\"`" + `.

This page is made by ` + "`go test ./config -rewrite`" + ` from the table that the reader is tested against.
`
