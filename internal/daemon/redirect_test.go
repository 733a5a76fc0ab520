package daemon

import (
	"net"
	"testing"

	"github.com/everline/everline/config"
)

func TestRedirectURI(t *testing.T) {
	plain, public, encrypted, open := config.New(), config.New(), config.New(), config.New()
	public.PublicURL = "https://gw.example.com"
	encrypted.TLS.CertFile = "cert.pem"
	open.PublicURL = "http://gw.example.com" // which no issuer takes
	for _, c := range []struct {
		ip   string
		cfg  *config.Config
		want string
	}{
		{"127.0.0.1", plain, "http://127.0.0.1:7433/oauth/callback"},
		{"::1", plain, "http://[::1]:7433/oauth/callback"},
		{"0.0.0.0", plain, "http://127.0.0.1:7433/oauth/callback"},
		{"192.0.2.1", plain, ""},
		{"192.0.2.1", public, "https://gw.example.com/oauth/callback"},
		{"127.0.0.1", encrypted, ""},
		{"127.0.0.1", open, "http://127.0.0.1:7433/oauth/callback"},
	} {
		if got := redirectURI(&net.TCPAddr{IP: net.ParseIP(c.ip), Port: 7433}, c.cfg); got != c.want {
			t.Errorf("%s, %q, %q: %q, want %q", c.ip, c.cfg.PublicURL, c.cfg.TLS.CertFile, got, c.want)
		}
	}
}
