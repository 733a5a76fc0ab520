package config

import (
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/tree"
)

// settings are the keys of "everline" at the top of a file.
func settings(c *Config) []key {
	return []key{
		{"listen", hostPort(&c.Listen)},
		{"listenUnix", path(&c.ListenUnix)},
		{"publicUrl", baseURL(&c.PublicURL)},
		{"tls", tlsFiles(&c.TLS)},
		{"tlsTerminatedBy", word(&c.TLSTerminatedBy, TLSByNobody, TLSByProxy)},
		{"clients", word(&c.Clients, ClientsSameUser, ClientsAnyLocal, ClientsTokens)},
		{"firstListWait", duration(&c.FirstListWait, 0)},
		{"naming", word(&c.Naming, NamingAuto, NamingAlwaysPrefix)},
		{"separator", text(&c.Separator)},
		{"maxName", number(&c.MaxName, 16)},
		{"drainTimeout", duration(&c.DrainTimeout, 0)},
		{"maxStarting", number(&c.MaxStarting, 1)},
		{"outage", word(&c.Outage, OutageKeep, OutageHide)},
		{"hideAfter", duration(&c.HideAfter, 0)},
		{"pins", word(&c.Pins, PinsOff, PinsWarn, PinsEnforce)},
		{"pinsFile", path(&c.PinsFile)},
		{"expose", word(&c.Expose, ExposeAll, ExposeSearch)},
		{"metrics", boolean(&c.Metrics)},
		{"metricsListen", hostPort(&c.MetricsListen)},
		{"metricsTokenFile", path(&c.MetricsTokenFile)},
		{"metricsPerTool", boolean(&c.MetricsPerTool)},
		{"metricsPerServerHistograms", word(&c.MetricsPerServer, PerServerAuto, PerServerOn, PerServerOff)},
		{"page", word(&c.Page, PageOpen, PageToken, PageOff)},
		{"groups", groups(&c.Groups)},
		{"auth", endpointAuthAt(c)},
		{"audit", audit(&c.Audit)},
	}
}

// audit takes the level alone, or an object that may have it.
func audit(to *Audit) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind == tree.String {
			return word(&to.Level, AuditOff, AuditAdmin, AuditCalls)(r, n)
		}
		return r.strictObject(n, `"audit"`, auditKeys(to))
	}
}

func auditKeys(to *Audit) []key {
	return []key{
		{"level", word(&to.Level, AuditOff, AuditAdmin, AuditCalls)},
		{"path", auditPath(&to.Path)},
		{"strict", boolean(&to.Strict)},
		{"chain", boolean(&to.Chain)},
		{"arguments", word(&to.Arguments, AuditNames, AuditNone, AuditHash, AuditFull)},
		{"maxFile", size(&to.MaxFile, 64<<10)},
		{"maxTotal", size(&to.MaxTotal, 1<<20)},
		{"keepFor", duration(&to.KeepFor, 24*time.Hour)},
	}
}

// auditPath takes a folder, or "-".
func auditPath(to *string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind == tree.String && n.Text == AuditStderr {
			*to = n.Text
			return nil
		}
		return path(to)(r, n)
	}
}

// standard are the keys that every client knows.
func standard(d *draft) []key {
	return []key{
		{"type", text(&d.kind)},
		{"command", d.interpolatedPath(&d.Command)},
		{"args", d.interpolatedList(&d.Args)},
		{"env", d.interpolatedMap(&d.Env)},
		{"envFile", d.envFile},
		{"cwd", d.interpolatedPath(&d.Cwd)},
		{"url", d.interpolatedURL(&d.URL)},
		{"headers", d.headers},
		{"disabled", boolean(&d.Disabled)},
		{"enabled", boolean(&d.enabled)},
	}
}

// ours are the keys of "everline" in a server.
func ours(d *draft) []key {
	const instant = time.Millisecond
	return []key{
		{"disabled", boolean(&d.Disabled)},
		{"lazy", boolean(&d.Lazy)},
		{"required", boolean(&d.Required)},
		{"overlap", func(r *reader, n *tree.Node) *fault.Fault {
			d.overlap = new(bool)
			return boolean(d.overlap)(r, n)
		}},
		{"startupTimeout", duration(&d.StartupTimeout, instant)},
		{"callTimeout", duration(&d.CallTimeout, instant)},
		{"parkFor", duration(&d.ParkFor, 0)},
		{"drainTimeout", duration(&d.DrainTimeout, 0)},
		{"idleTimeout", duration(&d.IdleTimeout, 0)},
		{"refreshInterval", duration(&d.RefreshInterval, 0)},
		{"keepResults", duration(&d.KeepResults, 0)},
		{"pingAfter", duration(&d.PingAfter, instant)},
		{"pingMisses", number(&d.PingMisses, 1)},
		{"streamIdleTimeout", duration(&d.StreamIdle, 0)},
		{"messageUrl", d.interpolatedURL(&d.MessageURL)},
		{"stopGrace", duration(&d.StopGrace, 0)},
		{"maxConcurrent", number(&d.MaxConcurrent, 0)},
		{"maxWaiting", number(&d.MaxWaiting, 0)},
		{"maxMessage", size(&d.MaxMessage, 1024)},
		{"eras", word(&d.Eras, ErasAuto, ErasModern, ErasLegacy, ErasBoth)},
		{"isolation", word(&d.Isolation, IsolationShared, IsolationSession)},
		{"maxSessions", number(&d.MaxSessions, 1)},
		{"sessionIdleTimeout", duration(&d.SessionIdle, 0)},
		{"auth", func(r *reader, n *tree.Node) *fault.Fault { return r.object(n, `"auth"`, auth(d), nil) }},
		{"tls", func(r *reader, n *tree.Node) *fault.Fault { return r.object(n, `"tls"`, serverTLS(d), nil) }},
		{"sandbox", func(r *reader, n *tree.Node) *fault.Fault {
			d.Sandbox = &Sandbox{Net: true}
			return r.strictObject(n, `"sandbox"`, d.sandbox())
		}},
		{"newPrivileges", boolean(&d.NewPrivileges)},
		{"limits", func(r *reader, n *tree.Node) *fault.Fault { return r.object(n, `"limits"`, limits(&d.Limits), nil) }},
		{"replay", replay(&d.Replay)},
		{"retry", func(r *reader, n *tree.Node) *fault.Fault { return r.object(n, `"retry"`, retry(d), nil) }},
		{"tools", func(r *reader, n *tree.Node) *fault.Fault { return r.object(n, `"tools"`, tools(&d.Tools), nil) }},
	}
}

// retry are the keys of "retry". maxDelay is kept apart: what it is where it is left
// out depends on how the server is reached.
func retry(d *draft) []key {
	to := &d.Retry
	const instant = time.Millisecond
	return []key{
		{"restart", word(&to.Restart, RestartAlways, RestartOnFailure, RestartNever)},
		{"fastFor", duration(&to.FastFor, instant)},
		{"firstDelay", duration(&to.FirstDelay, instant)},
		{"maxDelay", func(r *reader, n *tree.Node) *fault.Fault {
			d.maxDelay = new(time.Duration)
			return duration(d.maxDelay, instant)(r, n)
		}},
		{"slowProbe", duration(&to.SlowProbe, instant)},
		{"wakeEvery", duration(&to.WakeEvery, instant)},
		{"watchFor", duration(&to.WatchFor, 0)},
		{"stableAfter", duration(&to.StableAfter, instant)},
		{"strikes", number(&to.Strikes, 1)},
		{"maxStartsPerMinute", number(&to.MaxStarts, 1)},
	}
}

func tools(to *Tools) []key {
	return []key{
		{"allow", texts(&to.Allow)},
		{"deny", texts(&to.Deny)},
		{"hide", texts(&to.Hide)},
		{"rename", textMap(&to.Rename)},
		{"replay", replayMap(&to.Replay)},
	}
}

func (d *draft) sandbox() []key {
	to := d.Sandbox
	return []key{
		{"read", d.places(&to.Read)},
		{"write", d.places(&to.Write)},
		{"net", boolean(&to.Net)},
		{"ports", ports(&to.Ports)},
		{"require", boolean(&to.Require)},
	}
}

// places takes a list of files and folders, which count from where "cwd" does.
func (d *draft) places(to *[]string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.List {
			return r.wrongKind(n, "a list of files and folders")
		}
		all := make([]string, len(n.List))
		for i, e := range n.List {
			if e.Kind != tree.String || e.Text == "" {
				return r.wrongKind(e, "a file name")
			}
			if err := d.interpolatedPath(&all[i])(r, e); err != nil {
				return err
			}
			all[i] = seenFrom(r.folder(), all[i])
		}
		*to = all
		return nil
	}
}

// ports takes a list of TCP ports, as text.
func ports(to *[]string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		var all []string
		if err := texts(&all)(r, n); err != nil {
			return err
		}
		for i, port := range all {
			if !isPort(port, 1) {
				return tree.Invalid(r.file, n.List[i].Pos, `write it like "443"`, "the port %q is not a number from 1 to 65535", port)
			}
		}
		*to = all
		return nil
	}
}

func limits(to *Limits) []key {
	return []key{
		{"memory", size(&to.Memory, 1<<20)},
		{"pids", number(&to.Pids, 1)},
		{"cpu", processors(&to.CPU)},
	}
}

func serverTLS(d *draft) []key {
	to := &d.TLS
	return []key{
		{"caFile", d.interpolatedPath(&to.CAFile)},
		{"certFile", d.interpolatedPath(&to.CertFile)},
		{"keyFile", d.interpolatedPath(&to.KeyFile)},
		{"serverName", d.interpolated(&to.ServerName)},
	}
}

func auth(d *draft) []key {
	to := &d.Auth
	return []key{
		{"type", word(&to.Type, AuthAuto, AuthNone, AuthOAuth, AuthClientCredentials, AuthCommand, AuthEnterprise, AuthWorkload)},
		{"clientId", d.interpolated(&to.ClientID)},
		{"clientSecret", d.interpolated(&to.ClientSecret)},
		{"clientSecretFile", d.interpolatedPath(&to.ClientSecretFile)},
		{"privateKeyFile", d.interpolatedPath(&to.PrivateKeyFile)},
		{"signingAlg", text(&to.SigningAlg)},
		{"tokenAuth", word(&to.TokenAuth, TokenAuthAuto, TokenAuthBasic, TokenAuthPost, TokenAuthNone, TokenAuthJWT)},
		{"issuer", d.interpolated(&to.Issuer)},
		{"authorizationServerMetadata", d.interpolated(&to.MetadataURL)},
		{"clientIdUrl", d.interpolated(&to.ClientIDURL)},
		{"scopes", texts(&to.Scopes)},
		{"dropScopes", texts(&to.DropScopes)},
		{"resource", d.interpolated(&to.Resource)},
		{"resourceParam", word(&to.ResourceParam, ResourceAuto, ResourceAlways, ResourceNever)},
		{"redirectUri", d.interpolated(&to.RedirectURI)},
		{"callbackPort", number(&to.CallbackPort, 0)},
		{"command", d.interpolatedPath(&to.Command)},
		{"args", d.interpolatedList(&to.Args)},
		{"refreshAfter", duration(&to.RefreshAfter, 0)},
		{"assertionFile", d.interpolatedPath(&to.AssertionFile)},
		{"idpIssuer", d.interpolated(&to.IDPIssuer)},
		{"idpTokenUrl", d.interpolated(&to.IDPTokenURL)},
		{"idpClientId", d.interpolated(&to.IDPClientID)},
		{"idpClientSecret", d.interpolated(&to.IDPClientSecret)},
		{"allowPrivate", boolean(&to.AllowPrivate)},
		{"oldEndpoints", boolean(&to.OldEndpoints)},
	}
}
