package settings

import (
	"reflect"
	"strings"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/conf/tree"
)

// A Setting is one key of our own file: the table behind the reference page,
// the JSON Schema and the effective configuration. A test holds it together
// with the keys that the reader knows.
type Setting struct {
	Section string // where it stands: one of the Section constants
	Key     string
	Type    string // one of the Type constants
	Words   []string
	Doc     string

	field string // of the struct that the section fills; "" if it has none of its own
}

// The places of settings, as paths with NAME for a server or group.
const (
	SectionTop   = "everline"
	SectionGroup = "everline.groups.NAME"

	SectionClientAuth = "everline.auth"
	SectionPolicy     = "everline.auth.policies.NAME"
	SectionIssuer     = "everline.auth.oidc.N"
	SectionMTLS       = "everline.auth.mtls"
	SectionTLS        = "everline.tls"
	SectionAudit      = "everline.audit"

	SectionStandard  = "mcpServers.NAME"
	SectionServer    = "mcpServers.NAME.everline"
	SectionAuth      = "mcpServers.NAME.everline.auth"
	SectionServerTLS = "mcpServers.NAME.everline.tls"
	SectionSandbox   = "mcpServers.NAME.everline.sandbox"
	SectionLimits    = "mcpServers.NAME.everline.limits"
	SectionRetry     = "mcpServers.NAME.everline.retry"
	SectionTools     = "mcpServers.NAME.everline.tools"
)

// Sections are all places, in the order of the reference.
func Sections() []string {
	return []string{SectionTop, SectionGroup, SectionTLS, SectionClientAuth, SectionIssuer, SectionMTLS, SectionPolicy, SectionAudit, SectionStandard, SectionServer, SectionAuth, SectionServerTLS, SectionSandbox, SectionLimits, SectionRetry, SectionTools}
}

// What a value is.
const (
	TypeText      = "string"
	TypeBool      = "boolean"
	TypeNumber    = "whole number"
	TypeFraction  = "number"
	TypeSize      = "size"
	TypeTime      = "time"
	TypeWord      = "word"
	TypeTexts     = "list of strings"
	TypeTextMap   = "object of strings"
	TypeReplays   = "object of words"
	TypeObject    = "object"
	TypeRate      = "rate"
	TypeTextLists = "object of lists"
)

var replayWords = []string{"safe", "never", "always"}

// Settings returns the table, in the order of the reference.
func Settings() []Setting {
	return []Setting{
		{SectionTop, "listen", TypeText, nil, "The address of the endpoint. Other machines can reach it only where auth says who may come in, and with tls; or with --allow-unauthenticated.", "Listen"},
		{SectionTop, "clients", TypeWord, words(config.ClientsSameUser, config.ClientsAnyLocal, config.ClientsTokens), "Which users of this machine may connect: the one that everline runs as, and root; all; or none of them, unless they show what auth asks for, as those of other machines. Linux tells whose a connection is; elsewhere all are served, or all show something where there is auth.", "Clients"},
		{SectionTop, "listenUnix", TypeText, nil, "The path of a socket where the endpoint is served, too, to processes of this machine. Its folder must be yours alone.", "ListenUnix"},
		{SectionTop, "publicUrl", TypeText, nil, "The address under which clients reach the endpoint, without the path: https://gw.example.com.", "PublicURL"},
		{SectionTop, "tls", TypeObject, nil, "With what the endpoint is encrypted.", ""},
		{SectionTop, "tlsTerminatedBy", TypeWord, words(config.TLSByNobody, config.TLSByProxy), "Who encrypts what is said to the endpoint where it has no tls of its own: a proxy in front, or nobody.", "TLSTerminatedBy"},
		{SectionTop, "firstListWait", TypeTime, nil, "How long the very first list after a start waits for servers that have never had a catalog.", "FirstListWait"},
		{SectionTop, "naming", TypeWord, words(config.NamingAuto, config.NamingAlwaysPrefix), "Whether the names of tools and prompts begin with that of their server: only where there are several servers, or always, so that none changes when a second server comes.", "Naming"},
		{SectionTop, "separator", TypeText, nil, "What stands between server and tool in the names that clients see.", "Separator"},
		{SectionTop, "maxName", TypeNumber, nil, "The longest name that clients see; at least 16. Longer ones are cut, with a hash.", "MaxName"},
		{SectionTop, "drainTimeout", TypeTime, nil, "How long a stop waits for the calls in flight.", "DrainTimeout"},
		{SectionTop, "maxStarting", TypeNumber, nil, "How many processes may be starting at the same time.", "MaxStarting"},
		{SectionTop, "outage", TypeWord, words(config.OutageKeep, config.OutageHide), "What becomes of the tools of a server that is away: kept in the list with a mark, or hidden after hideAfter.", "Outage"},
		{SectionTop, "hideAfter", TypeTime, nil, "With outage hide: how long a server must be away before its tools are not listed.", "HideAfter"},
		{SectionTop, "pins", TypeWord, words(config.PinsOff, config.PinsWarn, config.PinsEnforce), "What happens when a tool's definition changes after it was approved.", "Pins"},
		{SectionTop, "pinsFile", TypeText, nil, "Where approved definitions are kept; everline.lock.json beside the configuration by default.", "PinsFile"},
		{SectionTop, "expose", TypeWord, words(config.ExposeAll, config.ExposeSearch), "What clients see of the tools: all of them, or two tools that find and call the others.", "Expose"},
		{SectionTop, "metrics", TypeBool, nil, "Whether the endpoint serves /metrics for Prometheus. It does so where only this machine reaches it, or with metricsTokenFile.", "Metrics"},
		{SectionTop, "metricsListen", TypeText, nil, "A further address, for /metrics alone; who reaches it can read them, unless there is a metricsTokenFile. It takes effect with a start of everline.", "MetricsListen"},
		{SectionTop, "metricsTokenFile", TypeText, nil, "A file whose text who scrapes must send as bearer token. It is read for each scrape.", "MetricsTokenFile"},
		{SectionTop, "metricsPerTool", TypeBool, nil, "Whether calls are counted by tool as well: those that a server lists, 200 of each server at most, and all others together.", "MetricsPerTool"},
		{SectionTop, "metricsPerServerHistograms", TypeWord, words(config.PerServerAuto, config.PerServerOn, config.PerServerOff), "Whether each server has histograms of its own among the metrics; auto: where there are at most 200 servers.", "MetricsPerServer"},
		{SectionTop, "page", TypeWord, words(config.PageOpen, config.PageToken, config.PageOff), "Who may look at the web page, at /ui/ beside the endpoint: whoever reaches an endpoint that only this machine reaches, or only who has opened it with everline ui, which changing anything needs everywhere; or whether there is none.", "Page"},
		{SectionTop, "groups", TypeObject, nil, "Further endpoints, /groups/NAME/mcp, each with some of the servers. A list of server names will do in place of the object.", "Groups"},
		{SectionGroup, "servers", TypeTexts, nil, "The servers of the group.", "Servers"},
		{SectionTop, "auth", TypeObject, nil, "Who may come in, and what they may do. With it nobody does without an identity.", ""},
		{SectionGroup, "expose", TypeWord, words(config.ExposeAll, config.ExposeSearch), "Like expose of the whole, for this endpoint.", "Expose"},

		{SectionTLS, "certFile", TypeText, nil, "A PEM file with the certificate, and those between it and the root. It is read again when it changes.", "TLS.CertFile"},
		{SectionTLS, "keyFile", TypeText, nil, "A PEM file with its private key.", "TLS.KeyFile"},
		{SectionTLS, "clientCAFile", TypeText, nil, "A PEM file with the roots of the certificates that clients may show.", "TLS.ClientCAFile"},

		{SectionClientAuth, "tokens", TypeBool, nil, "Whether tokens that everline token has made let clients in.", "Access.Tokens"},
		{SectionClientAuth, "oidc", TypeObject, nil, "A list of the issuers whose JWTs let clients in.", ""},
		{SectionClientAuth, "mtls", TypeObject, nil, "Clients come in with a certificate that one of clientCAFile has signed.", ""},
		{SectionClientAuth, "policies", TypeObject, nil, "What may be granted, by name. The policies all and none are built in.", "Policies"},
		{SectionClientAuth, "grants", TypeObject, nil, "Who has which policies: each label with one, or a list. A label is token:NAME, scope:SCOPE, claim:NAME=VALUE, sub:SUBJECT, mtls:NAME, uid:N, uid:self, anonymous, or * for everybody. Who has several has what each of them allows; who has none is refused. Without policies and grants everybody may do everything.", "Grants"},

		{SectionIssuer, "issuer", TypeText, nil, "Its address, exactly as its tokens have it.", "Issuer"},
		{SectionIssuer, "audience", TypeTexts, nil, "Whom a token must be for: one of these. The address of the endpoint where it is left out.", "Audience"},
		{SectionIssuer, "algs", TypeTexts, nil, "How its tokens may be signed.", "Algs"},
		{SectionIssuer, "subject", TypeText, nil, "The claim that names the client.", "Subject"},
		{SectionIssuer, "scopesClaim", TypeText, nil, "The claim with the scopes; scope, or else scp, where it is left out.", "ScopesClaim"},
		{SectionIssuer, "require", TypeTextLists, nil, "Claims that a token must have, each with one of the values. What lacks a scope is answered 403, and told which.", "Require"},
		{SectionIssuer, "clockSkew", TypeTime, nil, "By how much its clock may differ from this machine's.", "ClockSkew"},
		{SectionIssuer, "jwksUri", TypeText, nil, "Where its keys are; its metadata says so where this is left out.", "JWKSURI"},

		{SectionMTLS, "subject", TypeWord, words(config.CertURI, config.CertCN), "What in a certificate names its holder: its first URI, or its common name.", "Access.MTLS"},

		{SectionPolicy, "servers", TypeTexts, nil, "The servers that there are, as if there were no others. Without servers and groups: those that tools names, or all.", "Servers"},
		{SectionPolicy, "groups", TypeTexts, nil, "The servers of these groups, too.", "Groups"},
		{SectionPolicy, "tools", TypeTexts, nil, "Globs over SERVER.TOOL, in the server's own names: the tools that there are. All where it is left out. Methods of a server that no revision of MCP has are then not served.", "Tools"},
		{SectionPolicy, "readOnly", TypeBool, nil, "Only tools that say of themselves that they change nothing (readOnlyHint).", "ReadOnly"},
		{SectionPolicy, "rate", TypeRate, nil, "How many calls each who has the policy may make: 20/s, 100/m or 1000/h.", "Rate"},
		{SectionPolicy, "burst", TypeNumber, nil, "How many of them may come at the same moment; as many as rate names where it is left out.", "Burst"},
		{SectionPolicy, "concurrent", TypeNumber, nil, "How many calls each may have in flight; 0: no limit.", "Concurrent"},
		{SectionPolicy, "sessions", TypeNumber, nil, "How many sessions each may have, at all addresses together; one more ends the one that is idle for longest, or is refused where all are in use. 0: no limit but that of the endpoint.", "Sessions"},
		{SectionPolicy, "maxBody", TypeSize, nil, "The largest message of each; 0: that of the endpoint, 64MiB.", "MaxBody"},

		{SectionTop, "audit", TypeObject, nil, "The record of who did what. The word of its level will do in place of the object.", ""},
		{SectionAudit, "level", TypeWord, words(config.AuditOff, config.AuditAdmin, config.AuditCalls), "What is recorded: nothing; what is done to everline, and calls whose outcome is unknown; each call, session and refusal as well.", "Audit.Level"},
		{SectionAudit, "path", TypeText, nil, "The folder of the files, which is nobody else's; audit in the state folder where it is left out. \"-\" is standard error. It takes effect with a start of everline.", "Audit.Path"},
		{SectionAudit, "strict", TypeBool, nil, "Whether nothing may happen that cannot be recorded: a call is refused then, and a recorded one is answered once its record is in the file.", "Audit.Strict"},
		{SectionAudit, "chain", TypeBool, nil, "Whether each line has the hash of the line before, so that everline audit verify shows what was changed or taken out.", "Audit.Chain"},
		{SectionAudit, "arguments", TypeWord, words(config.AuditNames, config.AuditNone, config.AuditHash, config.AuditFull), "What is kept of the arguments of calls: their names, nothing, a hash with a key of the folder, or the text itself, up to 4 KiB, where only what has the name of a secret or is one of the configuration is masked.", "Audit.Arguments"},
		{SectionAudit, "maxFile", TypeSize, nil, "The size after which the next file is begun; at most a quarter of maxTotal.", "Audit.MaxFile"},
		{SectionAudit, "maxTotal", TypeSize, nil, "The size of all files; the oldest are deleted.", "Audit.MaxTotal"},
		{SectionAudit, "keepFor", TypeTime, nil, "How long a file is kept.", "Audit.KeepFor"},

		{SectionStandard, "type", TypeWord, words(config.TransportStdio, config.TransportHTTP, config.TransportSSE), "How the server is reached; found out where it is left out.", ""},
		{SectionStandard, "command", TypeText, nil, "The program to start, without arguments; ~/ is your own folder.", "Command"},
		{SectionStandard, "args", TypeTexts, nil, "Its arguments.", "Args"},
		{SectionStandard, "env", TypeTextMap, nil, "Variables of its environment, besides a small base set.", "Env"},
		{SectionStandard, "envFile", TypeText, nil, "A file of NAME=value lines that goes under env.", "EnvFile"},
		{SectionStandard, "cwd", TypeText, nil, "The folder to start in, relative to the file.", "Cwd"},
		{SectionStandard, "url", TypeText, nil, "The address of a server that runs elsewhere.", "URL"},
		{SectionStandard, "headers", TypeTextMap, nil, "Headers of every request to that address. Those that say how a message is framed and coded are everline's own.", "Headers"},
		{SectionStandard, "disabled", TypeBool, nil, "Not started until it is enabled.", "Disabled"},
		{SectionStandard, "enabled", TypeBool, nil, "The reverse of disabled, as some clients write it.", ""},

		{SectionServer, "disabled", TypeBool, nil, "Not started until it is enabled.", ""},
		{SectionServer, "lazy", TypeBool, nil, "Started by the first call; its tools are listed from disk until then. One that has never been listed is started once.", "Lazy"},
		{SectionServer, "required", TypeBool, nil, "/readyz says no without it, and it decides how status --check exits.", "Required"},
		{SectionServer, "overlap", TypeBool, nil, "A successor starts before the old generation ends; true for a URL, false for a command.", "Overlap"},
		{SectionServer, "startupTimeout", TypeTime, nil, "The limit for start, handshake and first listing.", "StartupTimeout"},
		{SectionServer, "callTimeout", TypeTime, nil, "The limit for one call.", "CallTimeout"},
		{SectionServer, "parkFor", TypeTime, nil, "How long a call may wait for the server to come back.", "ParkFor"},
		{SectionServer, "drainTimeout", TypeTime, nil, "How long a generation that is replaced may finish its calls.", "DrainTimeout"},
		{SectionServer, "idleTimeout", TypeTime, nil, "A lazy server is stopped after so long without a call; 0: never.", "IdleTimeout"},
		{SectionServer, "refreshInterval", TypeTime, nil, "How often its catalog is listed again; 0: never.", "RefreshInterval"},
		{SectionServer, "keepResults", TypeTime, nil, "How long outcomes are kept for clients that lost their connection; 0: not at all.", "KeepResults"},
		{SectionServer, "pingAfter", TypeTime, nil, "The silence on a call after which the server is pinged.", "PingAfter"},
		{SectionServer, "pingMisses", TypeNumber, nil, "How many pings in a row without an answer mean that it is wedged.", "PingMisses"},
		{SectionServer, "streamIdleTimeout", TypeTime, nil, "A standing event stream is opened anew after so long without a byte; 0: never.", "StreamIdle"},
		{SectionServer, "messageUrl", TypeText, nil, "Where an HTTP+SSE server takes messages, if not where it says.", "MessageURL"},
		{SectionServer, "stopGrace", TypeTime, nil, "The time from SIGTERM to SIGKILL.", "StopGrace"},
		{SectionServer, "maxConcurrent", TypeNumber, nil, "How many calls it gets at a time; 0: no limit.", "MaxConcurrent"},
		{SectionServer, "maxWaiting", TypeNumber, nil, "How many calls may wait for it.", "MaxWaiting"},
		{SectionServer, "maxMessage", TypeSize, nil, "The largest message.", "MaxMessage"},
		{SectionServer, "eras", TypeWord, words(config.ErasAuto, config.ErasModern, config.ErasLegacy, config.ErasBoth), "In which eras it is spoken to where it speaks both. auto: in that of 2026-07-28, and clients of older revisions that serve elicitation, sampling or roots get a generation of their own era; for a command not before one of its tools has asked. both: that without waiting. modern, legacy: in this one alone.", "Eras"},
		{SectionServer, "isolation", TypeWord, words(config.IsolationShared, config.IsolationSession), "Whether all clients share one generation of the server, or each client's session has one of its own, which ends with it.", "Isolation"},
		{SectionServer, "maxSessions", TypeNumber, nil, "How many clients may have a generation of their own at a time, by isolation or by eras; one more is refused.", "MaxSessions"},
		{SectionServer, "sessionIdleTimeout", TypeTime, nil, "A generation that not all clients share ends after so long without a call; 0: only with the session.", "SessionIdle"},
		{SectionServer, "auth", TypeObject, nil, "What a server at a URL is shown, beside its headers.", ""},
		{SectionServer, "tls", TypeObject, nil, "How a server at an https URL proves who it is, and what it wants to see of everline.", ""},
		{SectionServer, "sandbox", TypeObject, nil, "What its processes may read, write and connect to, on Linux with Landlock. What is everline's own, state and configuration, is denied in any case.", ""},
		{SectionServer, "newPrivileges", TypeBool, nil, "Whether its processes may gain privileges by what they start: sudo and other setuid programs. Linux keeps them from it where this is false.", "NewPrivileges"},
		{SectionServer, "limits", TypeObject, nil, "What its processes may use, where the system can enforce it.", ""},
		{SectionServer, "replay", TypeWord, replayWords, "Which calls whose outcome is unknown are sent again: those whose tool says it is harmless, none, or all.", "Replay"},
		{SectionServer, "retry", TypeObject, nil, "How it is started again.", ""},
		{SectionServer, "tools", TypeObject, nil, "Which of its tools are published, and how.", ""},

		{SectionAuth, "type", TypeWord, words(config.AuthAuto, config.AuthNone, config.AuthOAuth, config.AuthClientCredentials, config.AuthCommand, config.AuthEnterprise, config.AuthWorkload), "Where the credential comes from: the configured headers or, without any, a login as soon as the server asks for one; nowhere; a login; a token of the program itself; a command; a company's identity provider; the platform that everline runs on.", "Auth.Type"},
		{SectionAuth, "clientId", TypeText, nil, "The client, where it was registered by hand; without it one is registered by the first login.", "Auth.ClientID"},
		{SectionAuth, "clientSecret", TypeText, nil, "The client's secret.", "Auth.ClientSecret"},
		{SectionAuth, "clientSecretFile", TypeText, nil, "A file with that secret, relative to the file. It is read each time it is needed.", "Auth.ClientSecretFile"},
		{SectionAuth, "privateKeyFile", TypeText, nil, "A PEM file with the client's private key, in place of a secret.", "Auth.PrivateKeyFile"},
		{SectionAuth, "signingAlg", TypeText, nil, "ES256, RS256 or EdDSA; by the key where it is left out.", "Auth.SigningAlg"},
		{SectionAuth, "tokenAuth", TypeWord, words(config.TokenAuthAuto, config.TokenAuthBasic, config.TokenAuthPost, config.TokenAuthNone, config.TokenAuthJWT), "How the client shows who it is: as the issuer's metadata says, or so.", "Auth.TokenAuth"},
		{SectionAuth, "issuer", TypeText, nil, "The authorization server; another one is refused. The one that the server names where it is left out.", "Auth.Issuer"},
		{SectionAuth, "authorizationServerMetadata", TypeText, nil, "The address of the authorization server's metadata, for servers that do not say where to log in.", "Auth.MetadataURL"},
		{SectionAuth, "clientIdUrl", TypeText, nil, "The address of a client ID metadata document that your organisation hosts.", "Auth.ClientIDURL"},
		{SectionAuth, "scopes", TypeTexts, nil, "What to ask for, in place of what the server names.", "Auth.Scopes"},
		{SectionAuth, "dropScopes", TypeTexts, nil, "What not to ask for.", "Auth.DropScopes"},
		{SectionAuth, "resource", TypeText, nil, "What tokens are for, in place of what the server says.", "Auth.Resource"},
		{SectionAuth, "resourceParam", TypeWord, words(config.ResourceAuto, config.ResourceAlways, config.ResourceNever), "Whether the issuer is told that: unless it has refused it, always or never.", "Auth.ResourceParam"},
		{SectionAuth, "redirectUri", TypeText, nil, "Where the browser ends up, of a client that was registered by hand; everline's own address where it is left out.", "Auth.RedirectURI"},
		{SectionAuth, "callbackPort", TypeNumber, nil, "The port of that address on this machine; 0: that of the endpoint.", "Auth.CallbackPort"},
		{SectionAuth, "command", TypeText, nil, "With type command: a program that prints a token, or JSON with access_token and expires_in, within 10 seconds.", "Auth.Command"},
		{SectionAuth, "args", TypeTexts, nil, "Its arguments.", "Auth.Args"},
		{SectionAuth, "refreshAfter", TypeTime, nil, "How long a printed token without a lifetime is used; 0: until it is refused.", "Auth.RefreshAfter"},
		{SectionAuth, "assertionFile", TypeText, nil, "With type enterprise a file with the ID token, with workload one with the JWT; command prints it where this is left out.", "Auth.AssertionFile"},
		{SectionAuth, "idpIssuer", TypeText, nil, "With type enterprise: the identity provider.", "Auth.IDPIssuer"},
		{SectionAuth, "idpTokenUrl", TypeText, nil, "Its token endpoint; discovered where it is left out.", "Auth.IDPTokenURL"},
		{SectionAuth, "idpClientId", TypeText, nil, "The client there. With it, and neither a file nor a command, somebody logs in to the identity provider.", "Auth.IDPClientID"},
		{SectionAuth, "idpClientSecret", TypeText, nil, "The secret of that client.", "Auth.IDPClientSecret"},
		{SectionAuth, "allowPrivate", TypeBool, nil, "Whether the issuer may be in your own network though the server is not.", "Auth.AllowPrivate"},
		{SectionAuth, "oldEndpoints", TypeBool, nil, "Whether a server that publishes nothing about logins has `/authorize`, `/token` and `/register` at its root, as revision 2025-03-26 had it. Known by itself of a server that agrees to such a revision before it wants a login.", "Auth.OldEndpoints"},

		{SectionServerTLS, "caFile", TypeText, nil, "A PEM file with the authorities of the server's certificate, in place of the system's; relative to the file. For whom the server names, such as its issuer, they count beside the system's.", "TLS.CAFile"},
		{SectionServerTLS, "certFile", TypeText, nil, "A PEM file with the certificate that the server wants of everline. It is shown to the server alone.", "TLS.CertFile"},
		{SectionServerTLS, "keyFile", TypeText, nil, "A PEM file with the key of that certificate.", "TLS.KeyFile"},
		{SectionServerTLS, "serverName", TypeText, nil, "The name that the server's certificate must be for; the host of the URL where it is left out.", "TLS.ServerName"},

		{SectionSandbox, "read", TypeTexts, nil, "Files and folders that they may read, besides those of the system; all where it is left out.", "Read"},
		{SectionSandbox, "write", TypeTexts, nil, "Files and folders that they may write; none where it is left out.", "Write"},
		{SectionSandbox, "net", TypeBool, nil, "Whether they may connect and listen.", "Net"},
		{SectionSandbox, "ports", TypeTexts, nil, "Where net is false: TCP ports that they may connect to, such as \"443\".", "Ports"},
		{SectionSandbox, "require", TypeBool, nil, "Whether the server does not run where the system cannot enforce this; else a warning in status says what is not enforced.", "Require"},

		{SectionLimits, "memory", TypeSize, nil, "Memory of all its processes together; 0: no limit.", "Limits.Memory"},
		{SectionLimits, "pids", TypeNumber, nil, "Processes and threads; 0: no limit.", "Limits.Pids"},
		{SectionLimits, "cpu", TypeFraction, nil, "Processors: 0.5 is half of one; 0: no limit.", "Limits.CPU"},

		{SectionRetry, "restart", TypeWord, words(config.RestartAlways, config.RestartOnFailure, config.RestartNever), "Whether it is started again after an end.", "Retry.Restart"},
		{SectionRetry, "fastFor", TypeTime, nil, "How long after the loss it is tried fast; then come the slow retries.", "Retry.FastFor"},
		{SectionRetry, "firstDelay", TypeTime, nil, "The longest delay before the second attempt; the first comes immediately, later delays double. At least half of a delay is waited.", "Retry.FirstDelay"},
		{SectionRetry, "maxDelay", TypeTime, nil, "Where doubling stops; 10s for a URL, 30s for a command.", "Retry.MaxDelay"},
		{SectionRetry, "slowProbe", TypeTime, nil, "How often it is tried after that, for ever.", "Retry.SlowProbe"},
		{SectionRetry, "wakeEvery", TypeTime, nil, "How often calls may bring a slow retry forward.", "Retry.WakeEvery"},
		{SectionRetry, "watchFor", TypeTime, nil, "For so long after the loss a port that refused, or the files of a command that is missing or ends at its start, are looked at every 100 ms, then once a second; what is back is used immediately. 0: never.", "Retry.WatchFor"},
		{SectionRetry, "stableAfter", TypeTime, nil, "How long it must be up before the attempts are counted anew.", "Retry.StableAfter"},
		{SectionRetry, "strikes", TypeNumber, nil, "How many failures in a row that blame the connection replace it.", "Retry.Strikes"},
		{SectionRetry, "maxStartsPerMinute", TypeNumber, nil, "Beyond so many starts in a minute the growing delay applies whatever the health.", "Retry.MaxStarts"},

		{SectionTools, "allow", TypeTexts, nil, "If not empty, only the tools that match one of these globs.", "Tools.Allow"},
		{SectionTools, "deny", TypeTexts, nil, "Globs of tools that are neither listed nor callable.", "Tools.Deny"},
		{SectionTools, "hide", TypeTexts, nil, "Globs of tools that are callable, but not listed.", "Tools.Hide"},
		{SectionTools, "rename", TypeTextMap, nil, "Own name to published name.", "Tools.Rename"},
		{SectionTools, "replay", TypeReplays, replayWords, "Like replay of the server, for single tools.", "Tools.Replay"},
	}
}

func words[T ~string](all ...T) []string {
	texts := make([]string, len(all))
	for i, w := range all {
		texts[i] = string(w)
	}
	return texts
}

// Default is the value that counts where the key is left out, in the words of
// a file; "" if there is none worth a word.
func (s Setting) Default() string {
	if s.field == "" || s.Key == "overlap" || s.Key == "maxDelay" {
		return ""
	}
	var from reflect.Value
	switch s.Section {
	case SectionTop, SectionClientAuth, SectionTLS, SectionMTLS, SectionAudit:
		from = reflect.ValueOf(*config.New())
	case SectionGroup:
		from = reflect.ValueOf(config.Group{Expose: config.ExposeAll})
	case SectionIssuer:
		from = reflect.ValueOf(config.NewIssuer(""))
	case SectionSandbox:
		from = reflect.ValueOf(config.Sandbox{Net: true})
	case SectionPolicy:
		from = reflect.ValueOf(config.Policy{})
	default:
		from = reflect.ValueOf(config.NewServer(""))
	}
	v := value(fieldOf(from, s.field), s.Type)
	if v == nil || v == "" {
		return ""
	}
	return tree.Inline(v)
}

func fieldOf(v reflect.Value, path string) reflect.Value {
	for name := range strings.SplitSeq(path, ".") {
		v = v.FieldByName(name)
	}
	return v
}
