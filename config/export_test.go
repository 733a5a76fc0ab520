package config

// MaxServerName is the limit for tests.
const MaxServerName = maxServerName

// WithSideFiles returns options by which the files that a configuration names
// are read by read.
func (o Options) WithSideFiles(read func(folder, path string) (string, error)) Options {
	o.readSide = read
	return o
}

// Keys are the keys that the reader knows, by the path where they stand.
func Keys() map[string][]string {
	var d draft
	return map[string][]string{
		"everline": names(settings(New())), "everline.tls": names(tlsKeys(&TLS{})),
		"everline.auth.oidc.N": names(issuerKeys(&Issuer{})), "everline.auth.mtls": names(mtlsKeys(&Access{})),
		"mcpServers.NAME": names(standard(&d)), "mcpServers.NAME.everline": names(ours(&d)),
		"mcpServers.NAME.everline.limits": names(limits(&d.Limits)), "mcpServers.NAME.everline.retry": names(retry(&d)),
		"everline.audit": names(auditKeys(&Audit{})), "everline.auth": names(endpointAuth(New())), "everline.auth.policies.NAME": names(policyKeys(&Policy{})),
		"mcpServers.NAME.everline.sandbox": names((&draft{Server: Server{Sandbox: &Sandbox{}}}).sandbox()), "mcpServers.NAME.everline.tools": names(tools(&d.Tools)),
	}
}
