package auth

import (
	"context"
	"errors"
	"math"
	"net/url"
	"time"
)

const (
	grantDevice     = "urn:ietf:params:oauth:grant-type:device_code"
	devicePause     = 5 * time.Second
	maxDevicePause  = time.Minute
	maxDeviceWindow = 30 * time.Minute
)

// device logs in by a code that a person types on any device (RFC 8628).
func (l *Login) device(ctx context.Context, found *site, d *data) error {
	endpoint := found.meta.DeviceEndpoint
	if endpoint == "" {
		return errors.New("the issuer knows no device codes; try --no-browser or --paste")
	}
	c, _, err := l.enroll(ctx, found, d, loopbackURI(defaultPort))
	if err != nil {
		return err
	}
	scopes := l.s.wanted(found, union(l.o.Scopes, d.Asked[l.key.id()]))
	fl := &flow{login: l, issuer: found.meta.Issuer, client: c, site: found, scopes: scopes}
	form := url.Values{}
	if len(scopes) > 0 {
		form.Set("scope", scopeText(scopes))
	}
	if l.s.sendsResource(ctx, fl.issuer) {
		fl.resource = l.key.Resource
		form.Set("resource", fl.resource)
	}
	answer, err := l.s.tokens().post(ctx, endpoint, fl.issuer, c, form)
	if err != nil {
		return err
	}
	var a struct {
		Device   string  `json:"device_code"`
		User     string  `json:"user_code"`
		URL      string  `json:"verification_uri"`
		Complete string  `json:"verification_uri_complete"`
		Expires  float64 `json:"expires_in"`
		Interval float64 `json:"interval"`
	}
	if answer.object(&a) != nil || a.Device == "" || a.User == "" || l.s.web.checkEndpoint("verification_uri", a.URL) != nil {
		return &passing{text: "the issuer gives no device code that can be used"}
	}
	l.m.secrets.learn(a.Device)
	window := min(maxDeviceWindow, seconds(a.Expires, flowFor))
	l.mu.Lock()
	l.url, l.code, l.expires = a.URL, l.m.secrets.words(a.User), time.Now().Round(0).Add(window)
	l.mu.Unlock()
	l.tell()
	if l.o.Open && l.m.o.Browser != nil && a.Complete != "" && l.s.web.checkEndpoint("verification_uri", a.Complete) == nil {
		if err := l.m.o.Browser(ctx, a.Complete); err != nil {
			l.m.warn("no browser could be opened: " + err.Error())
		}
	}
	return l.poll(ctx, fl, a.Device, seconds(a.Interval, devicePause), window)
}

// seconds is a number of an issuer as a duration; what is no sensible number is
// the default.
func seconds(n float64, def time.Duration) time.Duration {
	if math.IsNaN(n) || n <= 0 || n > 24*3600 {
		return def
	}
	return time.Duration(n * float64(time.Second))
}

// poll asks for the token until the person is done, as seldom as the issuer wants.
func (l *Login) poll(ctx context.Context, fl *flow, code string, pause, window time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), window)
	defer cancel()
	stop := context.AfterFunc(l.m.ctx, cancel)
	defer stop()
	for {
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-l.done:
			wait.Stop()
			return nil
		case <-ctx.Done():
			wait.Stop()
			return errors.New("nobody has typed the code in time")
		}
		form := url.Values{"grant_type": {grantDevice}, "device_code": {code}}
		if fl.resource != "" {
			form.Set("resource", fl.resource)
		}
		tok, err := l.s.tokens().ask(ctx, fl.site.meta.TokenEndpoint, fl.issuer, fl.client, form)
		var no *refusal
		switch {
		case err == nil:
			return l.save(ctx, fl, tok)
		case !errors.As(err, &no): // the network: ask less often, as the RFC wants
			pause = min(2*pause, maxDevicePause)
		case no.code == codeSlowDown:
			pause = min(pause+devicePause, maxDevicePause)
		case no.code == codePending:
		case no.code == codeExpiredDevice:
			return errors.New("nobody has typed the code in time")
		default:
			return err
		}
	}
}
