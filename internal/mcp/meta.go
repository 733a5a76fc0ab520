package mcp

// The reserved keys of _meta (2026-07-28 basic/index, "_meta").
const (
	MetaVersion       = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo    = "io.modelcontextprotocol/clientInfo"
	MetaCapabilities  = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel      = "io.modelcontextprotocol/logLevel"
	MetaSubscription  = "io.modelcontextprotocol/subscriptionId"
	MetaServerInfo    = "io.modelcontextprotocol/serverInfo"
	MetaRelatedTask   = "io.modelcontextprotocol/related-task"
	MetaProgressToken = "progressToken"
	MetaTraceParent   = "traceparent" // without a prefix, as the next (SEP-414)
	MetaTraceState    = "tracestate"
)

// ExtensionTasks is the capability under which the modern era has tasks.
const ExtensionTasks = "io.modelcontextprotocol/tasks"

// ExtensionUI is the capability of clients that show MCP Apps, and what they declare
// under it (MCP Apps 2026-01-26, Client Capabilities).
const (
	ExtensionUI = "io.modelcontextprotocol/ui"
	SettingsUI  = `{"mimeTypes":["text/html;profile=mcp-app"]}`
	DeclaredUI  = `"` + ExtensionUI + `":` + SettingsUI
)

// everline's own keys of _meta.
const (
	MetaServer       = "everline/server"       // the server that an extension method is meant for
	MetaOutcome      = "everline/outcome"      // what is known about a call that failed
	MetaAvailability = "everline/availability" // of a listed tool, that its server is away
	MetaResultID     = "everline/resultId"     // the client's name for an answer that is to be kept
	MetaInstance     = "everline/instance"     // which everline shakes hands with a server

	// MetaSession is how a modern client over HTTP, which has no session, names the
	// generations that it wants for itself of servers whose isolation is "session":
	// by an unguessable string. Without it each request has generations of its own.
	MetaSession = "everline/session"
)
