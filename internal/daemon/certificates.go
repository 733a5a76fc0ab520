package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
)

// certificates are those of the endpoint. They are read again when a file of theirs
// changes; what cannot be used changes nothing.
type certificates struct {
	files func() config.TLS
	keep  func(shown []byte) error // for the user's own programs; see OwnWay
	log   *slog.Logger

	mu     sync.Mutex // guards the rest; held while files are read, once for each change
	now    *tls.Config
	of     config.TLS
	stamps [3]time.Time
	looked time.Time
}

// certificateLook is how often the files are looked at, when somebody connects.
const certificateLook = time.Second

func newCertificates(files func() config.TLS, keep func(shown []byte) error, log *slog.Logger) (*certificates, error) {
	c := &certificates{files: files, keep: keep, log: log, looked: time.Now()}
	c.of = files()
	c.stamps = stampsOf(c.of)
	var err error
	if c.now, err = loadTLS(c.of); err != nil {
		return nil, &fault.Fault{Kind: fault.Invalid, Op: "encrypt the endpoint", Outcome: fault.NotSent, Err: err, Remedy: `correct the files that "tls" names`}
	}
	c.tell(c.now)
	return c, nil
}

// tell keeps the certificate of a configuration that is about to count.
func (c *certificates) tell(fresh *tls.Config) {
	if err := c.keep(fresh.Certificates[0].Certificate[0]); err != nil {
		c.log.Warn("everline stdio cannot reach the endpoint", "cause", err)
	}
}

// config is what each connection is encrypted with. HTTP/2 is not offered: the bounds
// of the endpoint are on connections.
func (c *certificates) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(), nil }}
}

func (c *certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < certificateLook {
		return c.now
	}
	c.looked = time.Now()
	files := c.files()
	stamps := stampsOf(files)
	if files == c.of && stamps == c.stamps {
		return c.now
	}
	c.of, c.stamps = files, stamps
	fresh, err := loadTLS(files)
	if err != nil {
		c.log.Error("the endpoint goes on with the certificate that it has", "cause", err)
		return c.now
	}
	c.log.Info("the endpoint has a new certificate", "file", files.CertFile)
	c.tell(fresh)
	c.now = fresh
	return c.now
}

func stampsOf(t config.TLS) (stamps [3]time.Time) {
	for i, path := range []string{t.CertFile, t.KeyFile, t.ClientCAFile} {
		if info, err := os.Stat(path); err == nil {
			stamps[i] = info.ModTime()
		}
	}
	return stamps
}

func loadTLS(t config.TLS) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
	if t.ClientCAFile == "" {
		return c, nil
	}
	text, err := os.ReadFile(t.ClientCAFile)
	if err != nil {
		return nil, err
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !c.ClientCAs.AppendCertsFromPEM(text) {
		return nil, errors.New(t.ClientCAFile + " has no certificate")
	}
	return c, nil
}
