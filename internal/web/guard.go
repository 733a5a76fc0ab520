package web

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
)

// policy lets the page run what it is served with, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

const (
	maxBody  = 64 << 20         // bytes of a request
	bodyTime = 30 * time.Second // what sending one may take
)

// ServeHTTP is stricter than the endpoint for MCP clients: no page but ours may
// ask, whatever port of this machine it comes from, and none may read an answer.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if s.opts.Hub.Config().Page == config.PageOff {
		refuse(w, http.StatusNotFound, fault.NotFound, `the configuration has no page: "page" is "off"`, "")
		return
	}
	if why := s.foreign(r); why != "" {
		refuse(w, http.StatusForbidden, fault.Forbidden, why, "")
		return
	}
	if r.Method == http.MethodPost {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			refuse(w, http.StatusUnsupportedMediaType, fault.Invalid, "the body must be application/json", "")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // a reader without deadlines is bounded by its server
	}
	s.mux.ServeHTTP(w, r)
}

// foreign says why a request is none of our own page; "" if it may be.
func (s *Site) foreign(r *http.Request) string {
	if !s.opts.Host(r.Host) {
		return "the page is not served under the name " + r.Host + " (Host); everline serve --allow-host NAME adds one"
	}
	origins := r.Header["Origin"]
	if len(origins) > 1 || len(origins) == 1 && !sameOrigin(origins[0], r.Host) {
		return "pages of " + strings.Join(origins, ", ") + " may not use this (Origin)"
	}
	site := r.Header["Sec-Fetch-Site"]
	if len(site) > 0 && strings.HasPrefix(r.URL.Path, "/api/") && (len(site) > 1 || site[0] != "same-origin" && site[0] != "none") {
		return "a page of another origin made the browser send this (Sec-Fetch-Site)"
	}
	return ""
}

// sameOrigin holds for the host and the port under which we were reached: one
// scheme alone is served there.
func sameOrigin(origin, host string) bool {
	o, host := strings.ToLower(origin), strings.ToLower(host)
	return o == "http://"+host || o == "https://"+host
}

// open tells whether who reaches the endpoint may look: where only this machine
// reaches it, and every client there may call everything anyway.
func (s *Site) open() bool {
	cfg := s.opts.Hub.Config()
	return s.opts.Local && cfg.Page != config.PageToken && cfg.Clients != config.ClientsTokens && len(cfg.Policies)+len(cfg.Grants) == 0
}

// looking serves those who may look.
func (s *Site) looking(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.open() && s.keys.state(bearer(r), time.Now()) != tokenOK {
			s.locked(w, r)
			return
		}
		serve(w, r.WithContext(admin.FromWeb(r.Context())))
	})
}

// acting serves what this site itself does, for those who have a token.
func (s *Site) acting(serve http.HandlerFunc) http.Handler {
	return s.doing(s.opts.API.Doing(serve).ServeHTTP)
}

// doing serves those who have a token.
func (s *Site) doing(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.keys.state(bearer(r), time.Now()) != tokenOK {
			s.locked(w, r)
			return
		}
		serve(w, r.WithContext(admin.FromWeb(r.Context())))
	})
}

func (s *Site) locked(w http.ResponseWriter, r *http.Request) {
	text := "this needs a token"
	if s.keys.state(bearer(r), time.Now()) == tokenExpired {
		text = "the token has expired"
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	refuse(w, http.StatusUnauthorized, fault.Unauthorized, text, "everline ui")
}

func bearer(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}

func (s *Site) unlock(w http.ResponseWriter, r *http.Request) {
	var req struct{ Code string }
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.Code == "" {
		refuse(w, http.StatusBadRequest, fault.Invalid, `the body must be {"code"}`, "everline ui")
		return
	}
	var t Token
	err := s.opts.Unlock(r.Context(), r.RemoteAddr, func() (err error) {
		t.Token, t.ExpiresAt, err = s.keys.redeem(req.Code, time.Now())
		return err
	})
	switch {
	case err == nil:
		s.opts.API.Operated(r, "", "unlock", "")
		answer(w, t)
	case fault.KindOf(err) == fault.Overloaded: // it must be recorded, and cannot be
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, fault.Overloaded, err.Error(), "everline doctor")
	case errors.Is(err, errPaused):
		w.Header().Set("Retry-After", "60")
		refuse(w, http.StatusTooManyRequests, fault.RateLimited, err.Error(), "everline ui")
	case errors.Is(err, errBadCode):
		refuse(w, http.StatusUnauthorized, fault.Unauthorized, err.Error(), "everline ui")
	default:
		refuse(w, http.StatusInternalServerError, fault.Internal, err.Error(), "")
	}
}

func (s *Site) renew(w http.ResponseWriter, _ *http.Request) {
	token, until, err := s.keys.token(time.Now())
	if err != nil {
		refuse(w, http.StatusInternalServerError, fault.Internal, err.Error(), "")
		return
	}
	answer(w, Token{token, until})
}

// Token is the answer of POST /api/v1/unlock and /renew.
type Token struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expiresAt"`
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = newEncoder(w).Encode(v) // the error is the browser's going away
}

func refuse(w http.ResponseWriter, status int, kind fault.Kind, text, remedy string) {
	admin.Because(w, &fault.Fault{Kind: kind, Err: errors.New(text)})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = newEncoder(w).Encode(admin.Error{Error: admin.ErrorBody{Kind: kind.String(), Message: text, Remedy: remedy}}) // likewise
}
