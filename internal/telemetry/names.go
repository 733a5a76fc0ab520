package telemetry

import "go.opentelemetry.io/otel/attribute"

// The names are those of the semantic conventions for MCP, which left
// open-telemetry/semantic-conventions after this version of the schema and are in
// development: no Go package has them, and they may change.
const schemaURL = "https://opentelemetry.io/schemas/1.41.0"

const (
	mcpMethod    = attribute.Key("mcp.method.name")
	mcpSession   = attribute.Key("mcp.session.id") // a digest: the id itself opens the session
	mcpVersion   = attribute.Key("mcp.protocol.version")
	operation    = attribute.Key("gen_ai.operation.name")
	toolName     = attribute.Key("gen_ai.tool.name")
	promptName   = attribute.Key("gen_ai.prompt.name")
	requestID    = attribute.Key("jsonrpc.request.id")
	statusCode   = attribute.Key("rpc.response.status_code")
	errorType    = attribute.Key("error.type")
	netTransport = attribute.Key("network.transport")
	netProtocol  = attribute.Key("network.protocol.name")
	netVersion   = attribute.Key("network.protocol.version")
	clientHost   = attribute.Key("client.address")
	clientPort   = attribute.Key("client.port")
	serverHost   = attribute.Key("server.address")
	serverPort   = attribute.Key("server.port")

	ownServer     = attribute.Key("everline.server")
	ownGeneration = attribute.Key("everline.generation")
	ownOutcome    = attribute.Key("everline.outcome")
	ownSends      = attribute.Key("everline.sends")
	ownSend       = attribute.Key("everline.send")
	ownSaved      = attribute.Key("everline.saved")
	ownState      = attribute.Key("everline.state")
	ownWait       = attribute.Key("everline.wait.for")
)

const executeTool = "execute_tool" // of operation: tools/call
