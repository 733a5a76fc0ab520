// Package tlsfiles reads what a server's TLS needs from files that may change
// while everline runs: the authority of its certificate, and what proves to it
// who we are. It judges no certificate itself; crypto/tls does.
package tlsfiles

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/everline/everline/fault"
)

// maxFile bounds each file; bundles of all public authorities are a quarter of it.
const maxFile = 1 << 20

// handshakeLimit bounds one handshake.
const handshakeLimit = 10 * time.Second

// Files name what is configured. The zero value is TLS by the system alone.
type Files struct {
	CA         string // PEM: the authorities of the server, in place of the system's; "": the system's
	Cert, Key  string // PEM: the certificate that the server wants of us, and its key; "": none
	ServerName string // that the server's certificate must be for; "": the host of the URL
}

// A Source is what the files say now. It may be used by several goroutines.
type Source struct {
	files Files
	warn  func(text string)

	mu    sync.Mutex // guards the rest; no more than files are read under it
	seen  [3]stamp   // of the files, as they were last read
	roots *x509.CertPool
	added *x509.CertPool // the system's, and these
	own   *tls.Certificate
	bad   error // why nothing was ever read; nil once all was
}

// A stamp tells one content of a file from another.
type stamp struct {
	size int64
	mod  time.Time
}

// New returns a source that reads the files when they are needed. What cannot be
// read later is told to warn, which may be nil, and what was read before counts
// until it can.
func New(files Files, warn func(text string)) *Source {
	return &Source{files: files, warn: warn, bad: errors.New("nothing was read")}
}

// Open is New for files that are needed now. Its fault is of kind Invalid, and
// names the file.
func Open(files Files, warn func(text string)) (*Source, *fault.Fault) {
	s := New(files, warn)
	if _, err := s.Config(); err != nil {
		return nil, &fault.Fault{Kind: fault.Invalid, Op: "read tls", Outcome: fault.NotSent, Err: err}
	}
	return s, nil
}

func (s *Source) names() [3]string { return [3]string{s.files.CA, s.files.Cert, s.files.Key} }

func (s *Source) stamps() (all [3]stamp) {
	for i, name := range s.names() {
		if info, err := os.Stat(name); err == nil {
			all[i] = stamp{info.Size(), info.ModTime()}
		}
	}
	return all
}

// read takes all of the files or none.
func (s *Source) read(now [3]stamp) error {
	s.seen = now // what is wrong is told once, and read again when it changes
	var roots, added *x509.CertPool
	var own *tls.Certificate
	if s.files.CA != "" {
		text, err := content("caFile", s.files.CA)
		if err != nil {
			return err
		}
		roots = x509.NewCertPool()
		if added, err = x509.SystemCertPool(); err != nil {
			added = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(text) {
			return fmt.Errorf("tls.caFile %s: there is no certificate in PEM in it", s.files.CA)
		}
		added.AppendCertsFromPEM(text)
	}
	if s.files.Cert != "" {
		cert, err := content("certFile", s.files.Cert)
		if err != nil {
			return err
		}
		key, err := content("keyFile", s.files.Key)
		if err != nil {
			return err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil { // its text has nothing of the files
			return fmt.Errorf("tls.certFile %s and tls.keyFile %s: %w", s.files.Cert, s.files.Key, err)
		}
		if end := pair.Leaf.NotAfter; time.Now().After(end) {
			return fmt.Errorf("tls.certFile %s: the certificate ended on %s", s.files.Cert, end.Format(time.DateOnly))
		}
		own = &pair
	}
	s.roots, s.added, s.own = roots, added, own
	return nil
}

func content(key, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		var text []byte
		if text, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err == nil {
			if len(text) > maxFile {
				return nil, fmt.Errorf("tls.%s %s: it is larger than 1 MiB", key, path)
			}
			return text, nil
		}
	}
	var at *os.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return nil, fmt.Errorf("tls.%s %s: %w", key, path, err)
}

// Config is for connections to the server itself. An error means that the files
// could never be read.
func (s *Source) Config() (*tls.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refreshLocked(); err != nil {
		return nil, err
	}
	conf := &tls.Config{RootCAs: s.roots, ServerName: s.files.ServerName}
	if s.own != nil {
		conf.Certificates = []tls.Certificate{*s.own}
	}
	return conf, nil
}

// Others is for connections to whom the server names: who we are is not for them,
// and the authorities are these beside the system's.
func (s *Source) Others() (*tls.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refreshLocked(); err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: s.added}, nil
}

func (s *Source) refreshLocked() error {
	now := s.stamps()
	if now == s.seen && s.bad == nil {
		return nil
	}
	err := s.read(now)
	if err == nil || s.bad != nil {
		s.bad = err
	} else if s.warn != nil {
		s.warn(err.Error() + "; what was read before counts until it can be used")
	}
	return s.bad
}

// A Dialer opens a connection.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// Dial returns what opens a connection by dial and TLS on it, with what conf says
// at that moment. It is for http.Transport.DialTLSContext, HTTP/2 included.
func Dial(dial Dialer, conf func() (*tls.Config, error)) Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := conf()
		if err != nil {
			return nil, err
		}
		plain, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c.NextProtos = []string{"h2", "http/1.1"}
		if c.ServerName == "" {
			if c.ServerName, _, err = net.SplitHostPort(addr); err != nil {
				c.ServerName = addr
			}
		}
		conn := tls.Client(plain, c)
		ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
		defer cancel()
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = plain.Close() // the handshake says why
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		return conn, nil
	}
}
