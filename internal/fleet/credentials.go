package fleet

import (
	"net/http"
	"strings"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/auth"
)

// Credential is what is configured of a server's credential.
func Credential(s *config.Server) auth.Spec {
	spec := auth.Spec{Server: s.Name, URL: s.URL, Place: s.Origin.String()}
	for name := range s.Headers {
		spec.Static = spec.Static || http.CanonicalHeaderKey(name) == "Authorization"
	}
	if strings.HasPrefix(s.URL, "unix:") && !spec.Static {
		spec.Kind = auth.None // nobody but this machine's own programs answer there
	}
	return spec
}
