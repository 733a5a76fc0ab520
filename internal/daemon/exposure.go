package daemon

import (
	"fmt"
	"net"
	"strings"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
)

// MayServe refuses an address that other machines reach, unless nobody comes in
// there without an identity, and nobody else can hear how it is shown; and a
// configuration by which nobody could come in. unauthenticated says that an endpoint
// without any identities is meant.
func MayServe(c *config.Config, address string, unauthenticated bool) *fault.Fault {
	a, exposed := c.Access, !isLoopback(address)
	encrypted := c.TLS.CertFile != "" || c.TLSTerminatedBy == config.TLSByProxy
	switch {
	case c.Clients == config.ClientsTokens && !a.Demanded:
		return refuse(`write what they are to show: "auth": {"tokens": true}`, `"clients" is "tokens", and no "auth" says whose are taken`)
	case a.MTLS != "" && c.TLS.ClientCAFile == "":
		return refuse(`name the roots of their certificates: "tls": {…, "clientCAFile": "clients.pem"}`, `clients are to show certificates, and nobody could say which are good`)
	case !exposed:
		return nil
	case !a.Demanded && !unauthenticated:
		return refuse(`say who may come in ("auth": {"tokens": true}, then: everline token create NAME), listen on 127.0.0.1, or --allow-unauthenticated if a proxy in front checks who calls`,
			"other machines could reach %s, and call every tool: nothing says who may come in", address)
	case a.Demanded && !encrypted:
		return refuse(`name a certificate ("tls": {"certFile": …, "keyFile": …}), or "tlsTerminatedBy": "proxy" if one in front encrypts`,
			"what clients show at %s could be read on the way: it is not encrypted", address)
	default:
		return nil
	}
}

// OpOpen is the operation of a fault by which the configuration does not allow an
// endpoint.
const OpOpen = "open the endpoint"

func refuse(remedy, format string, args ...any) *fault.Fault {
	return &fault.Fault{Kind: fault.Invalid, Op: OpOpen, Outcome: fault.NotSent, Err: fmt.Errorf(format, args...), Remedy: remedy}
}

// isLoopback tells whether an address is one that only this machine reaches.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
