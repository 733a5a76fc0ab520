package mcp

// Error codes of JSON-RPC and of MCP (2026-07-28 basic/index, Error Codes).
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603

	// CodeServerError has no meaning of its own. Many servers refuse with it what
	// they do not know.
	CodeServerError = -32000

	CodeResourceNotFound   = -32002 // legacy only; in the modern era it is CodeInvalidParams
	CodeURLElicitation     = -32042 // legacy only
	CodeHeaderMismatch     = -32020 // these three are the modern era's alone
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022

	// CodeNotInitialized is what some servers took over from the Language Server
	// Protocol, for a session that they do not know.
	CodeNotInitialized = -32002
)

// everline's own codes, outside the range that JSON-RPC reserves: they cannot
// be mistaken for a server's.
const (
	CodeCancelled    = -32800
	CodeDeadline     = -31001
	CodeUnavailable  = -31002
	CodeOverloaded   = -31003
	CodeDisabled     = -31004
	CodeLinkLost     = -31005
	CodeLogin        = -31006
	CodeRateLimited  = -31007
	CodeBadPeer      = -31008
	CodeTooLarge     = -31009
	CodeConflict     = -31010
	CodeShuttingDown = -31011
	CodeLoop         = -31012
	CodeForbidden    = -31013
	CodeNeedsURL     = -31042 // a server's CodeURLElicitation, which modern clients must not see
)

// IsModernCode reports whether only servers of the modern era use a code.
func IsModernCode(code int64) bool {
	return code == CodeHeaderMismatch || code == CodeMissingCapability || code == CodeUnsupportedVersion
}
