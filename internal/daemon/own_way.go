package daemon

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/everline/everline/internal/access/tokens"
	"github.com/everline/everline/internal/owned"
	"github.com/everline/everline/internal/tlsfiles"
)

// certificateName is the file of the state folder with the certificate that the
// endpoint shows, for the user's own programs.
const certificateName = "endpoint.pem"

func (d *daemon) keepCertificate(shown []byte) error {
	return owned.Replace(filepath.Join(d.parts.stateDir, certificateName), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: shown}), 0o600)
}

// An OwnWay is the way to the endpoint of the user's own everline, which runs on the
// same state folder: it expects the very certificate that this everline shows, since a
// certificate is seldom made out for the address that it listens on; and where that asks
// who comes, it shows the token that is there for the user's own programs, and again
// when everline was started anew and has another one. It is for requests whose bodies
// can be had again.
type OwnWay struct {
	base     *http.Transport
	stateDir string
	token    atomic.Pointer[string]
}

// NewOwnWay returns the way to the everline of a state folder. The caller must Close it.
func NewOwnWay(stateDir string) *OwnWay {
	o := &OwnWay{base: http.DefaultTransport.(*http.Transport).Clone(), stateDir: stateDir}
	o.base.Proxy = nil // it is this machine
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	o.base.DialTLSContext = tlsfiles.Dial(dialer.DialContext, func() (*tls.Config, error) {
		return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: o.verify}, nil // verify is stricter
	})
	return o
}

// Close closes connections that nobody uses.
func (o *OwnWay) Close() { o.base.CloseIdleConnections() }

// verify asks of each connection for the certificate that everline shows now.
func (o *OwnWay) verify(c tls.ConnectionState) error {
	path := filepath.Join(o.stateDir, certificateName)
	f, err := owned.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(f); err != nil {
		return err
	}
	block, _ := pem.Decode(text.Bytes())
	if block == nil || len(c.PeerCertificates) == 0 || !bytes.Equal(c.PeerCertificates[0].Raw, block.Bytes) {
		return errors.New("the endpoint does not show the certificate of " + path)
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (o *OwnWay) RoundTrip(r *http.Request) (*http.Response, error) {
	shown := o.token.Load()
	resp, err := o.base.RoundTrip(bearing(r, shown))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	token := tokens.Local(o.stateDir)
	if token == "" || shown != nil && *shown == token || r.Body != nil && r.GetBody == nil {
		return resp, nil
	}
	o.token.Store(&token)
	again := bearing(r, &token)
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return resp, nil //nolint:nilerr // the refusal says more
		}
	}
	_ = resp.Body.Close() // nothing in it is wanted
	return o.base.RoundTrip(again)
}

// bearing is a request to this machine that shows a token; nil shows none.
func bearing(r *http.Request, token *string) *http.Request {
	again := r.Clone(r.Context())
	again.Host = "localhost" // under which every endpoint is served, wherever it listens
	if token != nil {
		again.Header.Set("Authorization", "Bearer "+*token)
	}
	return again
}
