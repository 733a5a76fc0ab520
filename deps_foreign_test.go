package everline_test

// mayImportForeign names the packages outside the standard library that a
// package may import.
var mayImportForeign = map[string][]string{
	"internal/sandbox":         {"github.com/landlock-lsm/go-landlock", "golang.org/x/sys"},
	"internal/access/entrance": {"golang.org/x/time"},
	"internal/access/oidc":     {"github.com/go-jose/go-jose/v4"},
	"internal/peeruid":         {"golang.org/x/sys"},
	"internal/gateway":         {"golang.org/x/time"},
	"gosdk":                    {"github.com/modelcontextprotocol/go-sdk"},
	"internal/auth":            {"github.com/zalando/go-keyring", "github.com/go-jose/go-jose/v4", "github.com/modelcontextprotocol/go-sdk/oauthex", "golang.org/x/oauth2", "github.com/fsnotify/fsnotify"},
	"internal/conf/tree":       {"github.com/tailscale/hujson", "github.com/goccy/go-yaml", "github.com/pelletier/go-toml/v2"},
	"internal/conf/edit":       {"github.com/tailscale/hujson"},
	"internal/transport/stdio": {"golang.org/x/sys"},
	"internal/fileedit":        {"golang.org/x/sys"},
	"internal/daemon":          {"golang.org/x/sys", "github.com/fsnotify/fsnotify", "github.com/prometheus/client_golang", "github.com/prometheus/client_model"},
	"internal/transport":       {"golang.org/x/sys"},
	"config":                   {"github.com/tailscale/hujson"},
	"internal/orphan":          {"golang.org/x/sys"},
	"internal/admin":           {"golang.org/x/sys", "internal/door"},
	"internal/statelock":       {"golang.org/x/sys"},
	"internal/show":            {"github.com/clipperhouse/displaywidth"},
	"internal/prompt":          {"golang.org/x/term"},
	"internal/top":             {"github.com/gdamore/tcell/v3"},
	"internal/observe":         {"github.com/prometheus/client_golang"},
	"internal/usage":           {"golang.org/x/sys"},
	"internal/telemetry":       {"go.opentelemetry.io/otel", "go.opentelemetry.io/contrib", "github.com/prometheus/client_golang"},
}
