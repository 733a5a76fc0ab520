package auth

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/fault"
)

const (
	callbackPath = "/oauth/callback"
	defaultPort  = 7433
	browserSoon  = 2 * time.Second // in which a browser that cannot be opened fails
)

// redirectURI is where the issuer sends the browser. Where it is not the
// program's own endpoint, a listener is open for this login alone, and it is open
// before the URI is registered.
func (l *Login) redirectURI(ctx context.Context) (string, error) {
	spec := &l.s.spec
	own := ""
	if l.m.o.RedirectURI != nil {
		own = l.m.o.RedirectURI()
	}
	switch {
	case spec.RedirectURI != "" && spec.RedirectURI != own:
		u, err := url.Parse(spec.RedirectURI)
		if err != nil || u.Host == "" {
			return "", errors.New("auth.redirectUri is no URL")
		}
		if port, err := strconv.Atoi(u.Port()); err == nil && loopbackHost(u.Hostname()) {
			if _, err := l.listen(ctx, port); err != nil {
				l.m.warn("the redirect can only be pasted: " + err.Error())
			}
		}
		return spec.RedirectURI, nil
	case spec.CallbackPort != 0:
		_, err := l.listen(ctx, spec.CallbackPort)
		return loopbackURI(spec.CallbackPort), err
	case own != "":
		return own, nil
	}
	port, err := l.listen(ctx, defaultPort)
	if err != nil && spec.ClientID == "" { // a client that is registered now may have any port
		port, err = l.listen(ctx, 0)
	}
	return loopbackURI(port), err
}

func loopbackURI(port int) string { return "http://127.0.0.1:" + strconv.Itoa(port) + callbackPath }

// listen serves the redirect of this login until its end.
func (l *Login) listen(ctx context.Context, port int) (int, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return 0, fmt.Errorf("port %d for the redirect of the login: %w", port, bareNet(err))
	}
	port = listener.Addr().(*net.TCPAddr).Port
	server := &http.Server{Handler: onLoopback(port, l.m.Handler()), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10}
	served := make(chan struct{})
	go func() { // ends with Shutdown, which the login's end waits for
		defer close(served)
		_ = server.Serve(listener)
	}()
	l.defers(func() {
		go func() { // the page of this very login may still be on its way; ends by its limit
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if server.Shutdown(ctx) != nil {
				_ = server.Close()
			}
		}()
		_ = listener.Close()
		<-served
	})
	return port, nil
}

func bareNet(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// onLoopback serves what is asked for by one of our own names: pages elsewhere
// can make a browser ask for any other.
func onLoopback(port int, inner http.Handler) http.Handler {
	suffix := ":" + strconv.Itoa(port)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, ok := strings.CutSuffix(r.Host, suffix); !ok || host != "127.0.0.1" && host != "localhost" {
			http.Error(w, "not here", http.StatusMisdirectedRequest)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// callback serves the redirect URI. It reflects nothing of the request.
func (m *Manager) callback(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "GET only", http.StatusMethodNotAllowed)
		return
	}
	fl := m.take(r.URL.Query().Get("state"))
	if fl == nil {
		page(w, http.StatusBadRequest, "This login is not known here", "It may be over, or it was begun by another program. Begin it again.")
		return
	}
	next, err := fl.answer(r.URL.Query())
	switch {
	case next != "":
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, next, http.StatusSeeOther)
	case err != nil:
		page(w, http.StatusBadRequest, "The login did not succeed", m.secrets.words(fault.From(opAuth, err).Reason()))
	default:
		page(w, http.StatusOK, "You are logged in to "+fl.login.s.spec.Server, "This page can be closed.")
	}
}

func page(w http.ResponseWriter, status int, title, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<!doctype html><title>everline</title><h1>%s</h1><p>%s</p>\n", html.EscapeString(title), html.EscapeString(text))
}

// take returns the question that a state belongs to, once.
func (m *Manager) take(state string) *flow {
	if state == "" {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	fl := m.pending[state]
	delete(m.pending, state)
	return fl
}

// answer ends a flow with what came back, or asks another question, whose URL it
// returns.
func (fl *flow) answer(q url.Values) (next string, err error) {
	l := fl.login
	if err := fl.checkIssuer(q); err != nil {
		l.finish(l.fault(err))
		return "", err
	}
	switch code, said := q.Get("code"), q.Get("error"); {
	case said != "":
		no := &refusal{code: l.m.secrets.words(said), text: l.m.secrets.words(q.Get("error_description"))}
		if next := fl.retry(said); next != "" {
			return next, nil
		}
		err = fl.advise(no)
	case code == "":
		err = errors.New("the issuer sent neither a code nor an error")
	default:
		err = l.redeem(fl, code)
	}
	if err != nil {
		l.finish(l.fault(err))
	}
	return "", err
}

// checkIssuer is RFC 9207: an answer of another issuer is not looked at any
// further, its error included.
func (fl *flow) checkIssuer(q url.Values) error {
	iss, present := q["iss"]
	switch {
	case !present && fl.site.meta.AuthorizationResponseIssParameterSupported:
		return errors.New("the answer does not say which issuer it is from, as this one always does")
	case present && (len(iss) != 1 || iss[0] != fl.issuer):
		return errors.New("the answer is from another issuer than the one that was asked")
	default:
		return nil
	}
}

// retry asks once more where the first question was refused for what can be left
// out: scopes that the issuer does not know, a resource that contradicts them.
func (fl *flow) retry(said string) string {
	if fl.again {
		return ""
	}
	second := *fl
	second.again = true
	switch {
	case said == codeInvalidScope && scopeSet(fl.asked.scopes) != scopeSet(fl.scopes):
		second.scopes = fl.asked.scopes
	case said == codeInvalidTarget && fl.resource != "" && fl.login.s.spec.ResourceParam == "" && fullURIs(fl.scopes):
		second.resource = ""
	default:
		return ""
	}
	u, err := fl.login.ask(&second)
	if err != nil {
		return ""
	}
	return u
}

func (fl *flow) advise(no *refusal) error {
	switch no.code {
	case codeInvalidScope:
		return fmt.Errorf(`%w; set "scopes" or "dropScopes" in "auth"`, no)
	case codeInvalidTarget:
		return fmt.Errorf(`%w; set "resource", or "resourceParam": "never", in "auth"`, no)
	default:
		return no
	}
}

// ErrBareCode: what was pasted is a code without the state that proves that it
// belongs to this login.
var ErrBareCode = errors.New("that is a code alone, and nothing proves that it belongs to this login: paste the whole address of the page")

// Deliver takes the address that the browser was redirected to, from a person
// who has copied it. It is checked as if it had come by itself.
func (l *Login) Deliver(redirected string) error {
	u, err := url.Parse(strings.TrimSpace(redirected))
	if err != nil || u.RawQuery == "" {
		return notSent(fault.Invalid, ErrBareCode, "")
	}
	fl := l.m.take(u.Query().Get("state"))
	if fl == nil || fl.login != l {
		return notSent(fault.Invalid, errors.New("that address is not of this login"), "")
	}
	next, err := fl.answer(u.Query())
	if next != "" {
		return notSent(fault.Conflict, errors.New("the issuer wants another question"), "open "+next)
	}
	if err != nil {
		return l.fault(err)
	}
	return nil
}

// DeliverCode takes a bare code, from a person who has confirmed that it is of
// this login.
func (l *Login) DeliverCode(code string) error {
	l.mu.Lock()
	fl := l.flow
	l.mu.Unlock()
	if fl == nil || l.m.take(fl.state) == nil {
		return notSent(fault.Invalid, errors.New("this login takes no code"), "")
	}
	if err := l.redeem(fl, strings.TrimSpace(code)); err != nil {
		f := l.fault(err)
		l.finish(f)
		return f
	}
	return nil
}

// OpenBrowser opens a page with what the system has for that. There is no shell,
// and nothing but http and https is opened.
func OpenBrowser(ctx context.Context, page string) error {
	u, err := url.Parse(page)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("only http and https are opened")
	}
	name, args := "xdg-open", []string{page}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", page}
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...) // the browser may be it
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the command, which may be the browser's end
	soon := time.NewTimer(browserSoon)
	defer soon.Stop()
	select {
	case err := <-ended:
		return err
	case <-soon.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
