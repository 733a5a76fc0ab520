package redact

import (
	"slices"
	"strings"

	"github.com/everline/everline/internal/conf/expand"
	"github.com/everline/everline/internal/conf/tree"
)

// InFile returns a function that replaces, in parts of these texts of a file,
// what is a secret there: the values of variables and headers of any server,
// those whose name says so, and what lets somebody in by a URL. References
// stay. It looks at every part of the file, also at what is no server of ours,
// and knows nothing of a text that cannot be parsed.
func InFile(file string, texts ...[]byte) func(part string) string {
	var all []string
	for _, text := range texts {
		if root, err := tree.Parse(file, text); err == nil {
			all = append(all, secretsOf(root, false)...)
		}
	}
	return replacer(all, nil)
}

// secretMaps are the names, in all formats, of maps whose values are secret.
var secretMaps = []string{"env", "environment", "envs", "headers", "http_headers"}

// secretsOf collects the secrets below a node; secret tells that its place says that
// it is one.
func secretsOf(n *tree.Node, secret bool) []string {
	var all []string
	for _, f := range n.Fields {
		all = append(all, secretsOf(f.Value, secret || slices.Contains(secretMaps, f.Name) || IsSecretName(f.Name))...)
	}
	for _, e := range n.List {
		all = append(all, secretsOf(e, secret)...)
	}
	if n.Kind != tree.String && n.Kind != tree.Number || IsReference(n.Text) {
		return all
	}
	var found []string
	if secret {
		found = Credentials(n.Text)
	}
	for _, v := range slices.Concat(found, InURL(n.Text), Inside(n.Text)) {
		all = append(all, asWritten(v)...)
	}
	return all
}

// IsReference tells whether a text has its secret elsewhere, in the words of
// any client.
func IsReference(text string) bool {
	for _, open := range []string{"${", "{env:", "{file:"} {
		if strings.Contains(text, open) {
			return true
		}
	}
	return strings.HasPrefix(text, "$") && expand.IsVariable(text[1:])
}
