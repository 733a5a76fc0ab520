package observe

import (
	"github.com/prometheus/client_golang/prometheus"
)

// A family is one metric: its name, its type, its labels, and what it means.
type family struct {
	name, kind, help string
	labels           []string
	desc             *prometheus.Desc
}

// families are all metrics of everline itself, in the order of the reference page.
var families []*family

func newFamily(name, kind, help string, labels ...string) *family {
	f := &family{name: "everline_" + name, kind: kind, help: help, labels: labels}
	f.desc = prometheus.NewDesc(f.name, help, labels, nil)
	families = append(families, f)
	return f
}

func counter(name, help string, labels ...string) *family {
	return newFamily(name, "counter", help, labels...)
}

func gauge(name, help string, labels ...string) *family {
	return newFamily(name, "gauge", help, labels...)
}

func histogram(name, help string, labels ...string) *family {
	return newFamily(name, "histogram", help, labels...)
}

var (
	buildInfo       = gauge("build_info", "1; the labels say what runs.", "version", "revision", "goversion")
	ready           = gauge("ready", "1 while all required servers can take calls, as /readyz says.")
	reloadOK        = gauge("config_last_reload_successful", "1 if the files as they are now are applied.")
	reloadTime      = gauge("config_last_reload_success_timestamp_seconds", "When the configuration was last applied.")
	reloads         = counter("config_reloads_total", "Reloads of the configuration.", "result")
	events          = counter("events_total", "Events, by kind.", "kind")
	leftovers       = gauge("leftovers", "Processes of an earlier everline that were alive when this one started.", "ended")
	serverState     = gauge("server_state", "1 for the state that the server is in, 0 for the nine others.", "server", "state")
	serverUp        = gauge("server_up", "1 while the server is connected or idle, 0 while it is away; absent while it is disabled.", "server")
	serverInfo      = gauge("server_info", "1; the labels describe the server.", "server", "transport", "era", "protocol", "required", "isolation")
	generation      = gauge("server_generation", "Number of the generation that serves, else of the newest.", "server")
	attempts        = gauge("server_attempts", "Generations lost in a row.", "server")
	stateSince      = gauge("server_state_since_timestamp_seconds", "When the state began.", "server")
	awaySince       = gauge("server_away_since_timestamp_seconds", "Since when no generation serves that should; absent if one does.", "server")
	nextAttempt     = gauge("server_next_attempt_timestamp_seconds", "When it is tried again; absent if nothing is due.", "server")
	generations     = counter("server_generations_total", "Generations started, by why.", "server", "cause")
	losses          = counter("server_losses_total", "Generations that served and ended unwanted, by why.", "server", "cause")
	startFailures   = counter("server_start_failures_total", "Generations that did not come to serve, by why.", "server", "cause")
	startDuration   = histogram("server_start_duration_seconds", "From the start of a generation to its first complete listing.", "transport")
	startPhase      = gauge("server_start_phase_seconds", "How the generation that serves came up.", "server", "phase")
	recovery        = histogram("server_recovery_seconds", "From the loss of a generation until the next one serves, over all attempts.", "server")
	outage          = counter("server_outage_seconds_total", "For how long the server was away, an outage that lasts included.", "server")
	calls           = counter("calls_total", "Requests that have ended, by how they did. Without a server: those that none was meant by.", "server", "method", "outcome")
	callFailures    = counter("call_failures_total", "Requests that were not sent, were refused, or whose outcome is unknown, by why.", "server", "kind")
	callDuration    = histogram("call_duration_seconds", "From when a request came to a server's slot until its end, waiting and sending again included.", "server")
	upstreamTime    = histogram("upstream_duration_seconds", "One send: from when it was written until it was answered or failed.", "transport")
	overhead        = histogram("overhead_seconds", "What everline itself takes of a request that was answered: neither at the server nor waiting for it.", "transport")
	inFlight        = gauge("calls_in_flight", "Requests that the server has now.", "server")
	waiting         = gauge("calls_waiting", "Requests that wait for the server now.", "server")
	parked          = counter("calls_parked_total", "Waits for a generation: not for a turn, not for the start of a lazy server.", "server", "result")
	parkTime        = histogram("park_duration_seconds", "How long those waits took.")
	repeated        = counter("sends_repeated_total", "Sends beyond the first of a request, by why the one before failed.", "server", "cause")
	saved           = counter("calls_saved_total", "Requests that were answered, and had failed without everline.", "server", "by")
	limited         = counter("rate_limited_total", "Refusals of the server because of a rate: 429, or 503 with Retry-After.", "server")
	limitPause      = counter("rate_limit_pause_seconds_total", "For how long requests were held back because of them.", "server")
	bytes           = counter("bytes_total", "Bytes of the params and results of requests.", "server", "direction")
	catalogItems    = gauge("catalog_items", "Items of the last good catalog.", "server", "kind")
	catalogTime     = gauge("catalog_timestamp_seconds", "When it was last listed, or found to be the same.", "server")
	catalogTokens   = gauge("catalog_tokens", "Estimate of what the listed tools cost a model: a quarter of their bytes.", "server")
	catalogConflict = gauge("catalog_conflicts", "Items that did not get the name that they would have had alone.", "server")
	catalogChanges  = counter("catalog_changes_total", "Changes of what the server offers.", "server")
	catalogFailures = counter("catalog_failures_total", "Listings that failed, by why.", "server", "cause")
	unapproved      = gauge("pins_unapproved", "Definitions that are not as they were approved.", "server")
	withheld        = gauge("pins_withheld", "Definitions that are not published until they are approved.", "server")
	sessions        = gauge("sessions", "Sessions of clients.")
	sessionsTotal   = counter("sessions_total", "Sessions of clients: opened, turned away, expired or ended.", "result")
	sessionDuration = histogram("session_duration_seconds", "How long sessions of clients were open that are over.")
	streams         = gauge("streams", "Open streams to clients.", "kind")
	refused         = counter("requests_refused_total", "Requests that were refused before any server was meant, by why.", "reason")
	policyRefused   = counter("policy_refusals_total", "Requests that were refused by what the client may do, by its policies and why.", "policy", "reason")
	clientBytes     = counter("client_bytes_total", "Bytes on the connections of clients.", "direction")
	auditLost       = counter("audit_lost_total", "Records of the audit log that could not be kept.")
	auditFailing    = gauge("audit_failing", "1 while the audit log cannot be written.")
	streamsCut      = counter("streams_cut_total", "Connections of clients that were cut.", "reason")
	lateAnswers     = counter("late_answers_total", "Answers of the server that no request waited for any more.", "server")
	pings           = counter("pings_total", "Pings of a server that was silent while a request waited.", "server", "result")
	tokenExpiry     = gauge("auth_token_expiry_timestamp_seconds", "When the token that the server is shown expires; absent where there is none, or none that says so.", "server")
	refreshes       = counter("auth_refreshes_total", "Refreshes of the token that the server is shown, by how they ended.", "server", "result")
	memoryBytes     = gauge("server_process_resident_bytes", "Resident memory of the server's process and all below it.", "server")
	cpuTime         = counter("server_process_cpu_seconds_total", "CPU time of the server's processes, those of ended generations included.", "server")
	processes       = gauge("server_processes", "Processes of the server: its own and all below it.", "server")
	telemetryLost   = counter("telemetry_lost_total", "What was recorded for OpenTelemetry and could not be exported.", "signal")
	noise           = counter("server_noise_total", "Lines or events that were no messages where only those belong.", "server")
	ignored         = counter("server_ignored_total", "Messages of the server that meant nothing: notifications that nobody knows, progress of what is over, requests that its era forbids.", "server")
	stderrBytes     = counter("server_stderr_bytes_total", "What the server has written to stderr.", "server")
	drills          = counter("drills_total", "Drills that have begun, by the fault.", "server", "fault")
	viewers         = gauge("stream_viewers", "Web pages that are open.")
	toolCalls       = counter("tool_calls_total", "With metricsPerTool: calls of tools by how they ended. _other are those of tools that the server does not list, and of all beyond 200.", "server", "tool", "outcome")
)
