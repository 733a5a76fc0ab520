package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/audit"
	"github.com/everline/everline/internal/auth"
)

// LoginRequest is the body of POST /v1/servers/{name}/login.
type LoginRequest struct {
	Scopes []string `json:"scopes,omitempty"`
	Device bool     `json:"device,omitempty"`
	Force  bool     `json:"force,omitempty"`
}

// Login is a login that has begun. URL is "" where nothing has to be done, or
// another process does it.
type Login struct {
	ID          string     `json:"id"`
	URL         string     `json:"url"`
	UserCode    string     `json:"userCode"`
	RedirectURI string     `json:"redirectUri"`
	Elsewhere   bool       `json:"elsewhere"` // another process has it open
	ExpiresAt   *time.Time `json:"expiresAt"`
}

// Delivery is the body of POST /v1/logins/{id}/deliver: the address that a browser
// ended up at, or a bare code whose owner is certain of it.
type Delivery struct {
	URL  string `json:"url,omitempty"`
	Code string `json:"code,omitempty"`
}

// LogoutRequest is the body of POST /v1/servers/{name}/logout.
type LogoutRequest struct {
	All bool `json:"all,omitempty"`
}

const (
	maxLogin = 64 << 10 // bytes of a request about a login
	maxEnded = 64       // logins whose end can be asked for
)

// logins are those that were begun by the API, the ended ones included, so that
// nobody asks too late how one has ended.
type logins struct {
	mu    sync.Mutex // guards the rest; nothing waits under it
	byID  map[string]*begun
	order []string
}

// A begun login is one that the API has begun.
type begun struct {
	*everline.Login
	server   string
	recorded bool // how it has ended; guarded by the lock of logins
}

// add is nil if the login is there already.
func (l *logins) add(login *everline.Login, server string) *begun {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = map[string]*begun{}
	}
	if l.byID[login.ID] != nil {
		return nil
	}
	b := &begun{Login: login, server: server}
	l.byID[login.ID] = b
	if l.order = append(l.order, login.ID); len(l.order) > maxEnded {
		delete(l.byID, l.order[0])
		l.order = l.order[1:]
	}
	return b
}

// recordEnd has recorded how a login ends that nobody may wait for.
func (a *API) recordEnd(b *begun, by audit.Actor) {
	select {
	case <-b.Done():
		a.begun.record(b, a.opts.Audit, by, b.Wait(context.Background()))
	case <-a.stop:
	}
}

func (l *logins) find(id string) *begun {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id]
}

// record has recorded once how a login has ended.
func (l *logins) record(b *begun, log *audit.Log, by audit.Actor, err error) {
	l.mu.Lock()
	first := !b.recorded
	b.recorded = true
	l.mu.Unlock()
	if !first {
		return
	}
	r := &audit.Record{Type: audit.TypeAuth, Action: "login_ended", Outcome: audit.OK, Actor: by, Target: &audit.Target{Server: b.server}}
	if err != nil {
		f := fault.From("login", err)
		r.Outcome, r.Kind, r.Cause = audit.Failed, f.Kind.String(), f.Reason()
	}
	log.Note(r)
}

// readBody reads a request's JSON; an empty body is the zero value.
func readBody(w http.ResponseWriter, r *http.Request, v any) error {
	if r.ContentLength == 0 {
		return nil
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxLogin)).Decode(v); err != nil {
		return &fault.Fault{Kind: fault.Invalid, Op: "login", Outcome: fault.NotSent, Err: errors.New("the body cannot be read")}
	}
	return nil
}

func (a *API) login(w http.ResponseWriter, r *http.Request) {
	var req LoginRequest
	name := r.PathValue("name")
	if err := readBody(w, r, &req); err != nil {
		a.fail(w, err)
		return
	}
	if _, ok := a.opts.Hub.Server(name); !ok {
		a.fail(w, a.noServer("login", name))
		return
	}
	l, err := a.opts.Hub.Login(r.Context(), name, everline.LoginOptions{Scopes: req.Scopes, Device: req.Device, Force: req.Force})
	if err != nil {
		a.fail(w, err)
		return
	}
	a.Operated(r, name, "login", "")
	if b := a.begun.add(l, name); b != nil {
		go a.recordEnd(b, actorOf(r)) // ends with the login, or with EndStreams
	}
	answer(w, http.StatusOK, shapeLogin(l))
}

// shapeLogin is a login as the person who logs in sees it: of its URL nothing is
// hidden.
func shapeLogin(l *everline.Login) Login {
	return Login{
		ID: l.ID, URL: l.URL(), UserCode: l.UserCode(), RedirectURI: l.RedirectURI(), Elsewhere: l.Elsewhere(), ExpiresAt: knownTime(l.Expires()),
	}
}

// loginAlive is how often a stream about a login shows that it is one.
const loginAlive = 15 * time.Second

// loginStream tells of a login by server-sent events: "waiting" with what a person
// has to do, then "ended", or "failed" with an error as in every other answer.
func (a *API) loginStream(w http.ResponseWriter, r *http.Request, l *begun) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	tell := func(event string, v any) bool {
		data, err := json.Marshal(v)
		if err == nil {
			_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data)
		}
		return err == nil && out.Flush() == nil
	}
	alive := time.NewTicker(loginAlive)
	defer alive.Stop()
	for going := tell("waiting", shapeLogin(l.Login)); going; {
		var err error
		select {
		case <-alive.C:
			_, err := io.WriteString(w, ": waiting\n\n")
			going = err == nil && out.Flush() == nil
			continue
		case <-r.Context().Done():
			return
		case <-l.Done():
			err = l.Wait(r.Context())
			a.begun.record(l, a.opts.Audit, actorOf(r), err)
		case <-a.stop:
			err = fault.New(fault.Closed, "login", "everline is shutting down")
		}
		if err != nil {
			tell("failed", shapeError(fault.From("login", err), a.hide()))
		} else {
			tell("ended", struct{}{})
		}
		return
	}
}

// loginEnd answers once the login has ended, or with events until then for who
// accepts these.
func (a *API) loginEnd(w http.ResponseWriter, r *http.Request) {
	l := a.begun.find(r.PathValue("id"))
	if l == nil {
		a.fail(w, noLogin())
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		a.loginStream(w, r, l)
		return
	}
	select {
	case <-l.Done():
	case <-r.Context().Done():
		return
	case <-a.stop:
		a.fail(w, fault.New(fault.Closed, "login", "everline is shutting down"))
		return
	}
	err := l.Wait(r.Context())
	a.begun.record(l, a.opts.Audit, actorOf(r), err)
	if err != nil {
		a.fail(w, err)
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

func noLogin() *fault.Fault {
	return fault.New(fault.NotFound, "login", "no login with that id was begun here")
}

func (a *API) deliver(w http.ResponseWriter, r *http.Request) {
	var d Delivery
	l := a.begun.find(r.PathValue("id"))
	err := readBody(w, r, &d)
	switch {
	case err != nil:
	case l == nil:
		err = noLogin()
	case d.Code != "":
		err = l.DeliverCode(d.Code)
	default:
		err = l.Deliver(d.URL)
	}
	if err != nil {
		a.fail(w, err)
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

func (a *API) logout(w http.ResponseWriter, r *http.Request) {
	var req LogoutRequest
	name := r.PathValue("name")
	err := readBody(w, r, &req)
	if err == nil {
		err = a.opts.Hub.Logout(r.Context(), name, req.All)
	}
	if err != nil {
		a.fail(w, err)
		return
	}
	a.Operated(r, name, "logout", "")
	a.answerServer(w, "logout", name)
}

// Login is POST /v1/servers/{name}/login.
func (c *Client) Login(ctx context.Context, server string, req LoginRequest) (Login, error) {
	var l Login
	return l, c.post(ctx, serverPath(server, "login"), req, &l)
}

// LoginEnd is GET /v1/logins/{id}: it returns once the login has ended, and says
// how.
func (c *Client) LoginEnd(ctx context.Context, id string) error {
	return c.get(ctx, "/v1/logins/"+url.PathEscape(id), &struct{}{})
}

// Deliver is POST /v1/logins/{id}/deliver.
func (c *Client) Deliver(ctx context.Context, id string, d Delivery) error {
	return c.post(ctx, "/v1/logins/"+url.PathEscape(id)+"/deliver", d, &struct{}{})
}

// Logout is POST /v1/servers/{name}/logout.
func (c *Client) Logout(ctx context.Context, server string, req LogoutRequest) (Server, error) {
	var s Server
	return s, c.post(ctx, serverPath(server, "logout"), req, &s)
}

func (c *Client) post(ctx context.Context, path string, req, into any) error {
	data, err := json.Marshal(req)
	if err != nil {
		return &fault.Fault{Kind: fault.Invalid, Op: "ask everline", Outcome: fault.NotSent, Err: err}
	}
	body, err := c.do(ctx, http.MethodPost, path, data)
	if err != nil {
		return err
	}
	defer body.Close()
	return decode(body, into)
}

// IsBareCode tells that what was delivered is a code without its address.
func IsBareCode(err error) bool {
	f, ok := fault.As(err)
	return ok && f.Kind == fault.Invalid && f.Reason() == auth.ErrBareCode.Error()
}
