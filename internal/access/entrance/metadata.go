package entrance

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/everline/everline/internal/mcp"
)

const metadataPath = "/.well-known/oauth-protected-resource"

// metadata is what a client learns of how to get a token (RFC 9728).
type metadata struct {
	Resource      string   `json:"resource"`
	Name          string   `json:"resource_name"`
	Servers       []string `json:"authorization_servers"`
	Scopes        []string `json:"scopes_supported,omitempty"`
	BearerMethods []string `json:"bearer_methods_supported"`
}

// Metadata is the pattern under which ServeMetadata answers.
const Metadata = metadataPath + "/{path...}"

// ServeMetadata answers for the endpoint that the path behind the well-known one
// names: /mcp without one. It is open to everybody, web pages included. There is
// none where no issuer is configured: clients would look for a login that nobody
// offers.
func (e *Entrance) ServeMetadata(w http.ResponseWriter, r *http.Request) {
	rules, path := e.rules.Load(), "/"+r.PathValue("path")
	if path == "/" {
		path = "/mcp"
	}
	if !rules.challenges || placeOf(path) != path {
		refuse(w, http.StatusNotFound, mcp.CodeInvalidRequest, "Nothing is known of a login here")
		return
	}
	m := metadata{Resource: rules.public + path, Name: "everline", Scopes: rules.scopes, BearerMethods: []string{"header"}}
	for _, i := range rules.Issuers {
		m.Servers = append(m.Servers, i.Issuer)
	}
	w.Header().Set("Content-Type", mcp.TypeJSON)
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Cache-Control", "max-age=300")
	_ = json.NewEncoder(w).Encode(m) // a client that is gone hears nothing
}

// placeOf is the path of the endpoint that a request is for; /mcp for one that is
// none.
func placeOf(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	last := parts[len(parts)-1]
	switch {
	case len(parts) == 1 && (last == "mcp" || last == "sse"),
		len(parts) == 2 && parts[0] == "mcp" && last != "",
		len(parts) == 3 && parts[0] == "groups" && parts[1] != "" && (last == "mcp" || last == "sse"):
		return path
	default:
		return "/mcp"
	}
}
