package config

// Naming says how the published names of tools and prompts are made.
type Naming string

const (
	NamingAuto         Naming = "auto"          // one server: as it calls them; more: each behind its server's name
	NamingAlwaysPrefix Naming = "always-prefix" // each behind its server's name, so that none changes when a second server comes
)

// Clients says which users of this machine the endpoint serves.
type Clients string

const (
	ClientsSameUser Clients = "same-user" // the one that everline runs as, and root; where the system tells whose a connection is: Linux
	ClientsAnyLocal Clients = "any-local" // all
	ClientsTokens   Clients = "tokens"    // none of them without showing more: whom Access lets in
)

// PerServer says whether each server has histograms of its own among the metrics.
type PerServer string

const (
	PerServerAuto PerServer = "auto" // where there are at most 200 servers: most of what is scraped are histograms
	PerServerOn   PerServer = "on"
	PerServerOff  PerServer = "off"
)

// TLSTerminatedBy says who encrypts the way between clients and a machine whose
// endpoint does not.
type TLSTerminatedBy string

const (
	TLSByNobody TLSTerminatedBy = "nobody"
	TLSByProxy  TLSTerminatedBy = "proxy" // in front of it
)

// Page says who may look at the web page.
type Page string

const (
	PageOpen  Page = "open"  // whoever reaches an endpoint that only this machine reaches; elsewhere as PageToken
	PageToken Page = "token" // who has opened it with everline ui
	PageOff   Page = "off"   // there is none
)

// Outage says what becomes of the items of a server that is away.
type Outage string

const (
	OutageKeep Outage = "keep" // they stay listed, with a mark
	OutageHide Outage = "hide" // they are not listed after Config.HideAfter
)

// Pins says what happens when a definition changes after it was approved.
type Pins string

const (
	PinsOff     Pins = "off"
	PinsWarn    Pins = "warn"    // it is reported
	PinsEnforce Pins = "enforce" // and withheld until it is approved
)

// AuditLevel says what is recorded.
type AuditLevel string

const (
	AuditOff   AuditLevel = "off"
	AuditAdmin AuditLevel = "admin" // what is done to everline, and calls whose outcome is unknown
	AuditCalls AuditLevel = "calls" // and every other call, session and refusal
)

// AuditArguments says what is recorded of the arguments of calls.
type AuditArguments string

const (
	AuditNames AuditArguments = "names" // the names of those at the top
	AuditNone  AuditArguments = "none"
	AuditHash  AuditArguments = "hash" // a keyed hash of all of them
	AuditFull  AuditArguments = "full" // the text, up to 4 KiB, what looks secret masked
)

// Expose says what an endpoint lists of the tools.
type Expose string

const (
	ExposeAll    Expose = "all"
	ExposeSearch Expose = "search" // two tools that find and call the others
)

// Transport is how a server is reached.
type Transport string

const (
	TransportStdio Transport = "stdio" // a command
	TransportHTTP  Transport = "http"  // Streamable HTTP
	TransportSSE   Transport = "sse"   // HTTP+SSE of 2024-11-05
	TransportAuto  Transport = "auto"  // a URL: it is found out which of the two
)

// AuthType is what credential a server is shown.
type AuthType string

const (
	AuthAuto              AuthType = "auto"               // configured headers; else what somebody logs in to, once the server asks for it
	AuthNone              AuthType = "none"               // nothing
	AuthOAuth             AuthType = "oauth"              // what somebody logs in to
	AuthClientCredentials AuthType = "client_credentials" // a token of the program itself
	AuthCommand           AuthType = "command"            // what a command prints
	AuthEnterprise        AuthType = "enterprise"         // what a company's identity provider gives for one of its tokens (SEP-990)
	AuthWorkload          AuthType = "workload"           // what is given for a JWT of the platform that everline runs on (SEP-1933)
)

// TokenAuth is how a client shows the token endpoint who it is.
type TokenAuth string

const (
	TokenAuthAuto  TokenAuth = "auto" // as the issuer's metadata says
	TokenAuthBasic TokenAuth = "basic"
	TokenAuthPost  TokenAuth = "post"
	TokenAuthNone  TokenAuth = "none"
	TokenAuthJWT   TokenAuth = "private_key_jwt"
)

// ResourceParam says when an issuer is told which server a token is for.
type ResourceParam string

const (
	ResourceAuto   ResourceParam = "auto" // always, unless the issuer has refused it
	ResourceAlways ResourceParam = "always"
	ResourceNever  ResourceParam = "never"
)

// Isolation says who shares a generation of a server.
type Isolation string

const (
	IsolationShared  Isolation = "shared"  // all clients
	IsolationSession Isolation = "session" // nobody: each client's session has its own
)

// Eras says in which eras a server is spoken to.
type Eras string

const (
	ErasAuto   Eras = "auto"   // in the modern one where it speaks both; in the legacy one as well for clients that need it
	ErasModern Eras = "modern" // in no other
	ErasLegacy Eras = "legacy" // in no other
	ErasBoth   Eras = "both"   // as auto, and a command without waiting until it is known that clients need it
)

// Restart says when a server that has ended is started again.
type Restart string

const (
	RestartAlways    Restart = "always"
	RestartOnFailure Restart = "on-failure" // not after a clean end
	RestartNever     Restart = "never"
)
