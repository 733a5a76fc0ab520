package daemon

import (
	"encoding/json"
	"net/http"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/audit"
	"github.com/everline/everline/internal/conf/settings"
	"github.com/everline/everline/internal/visible"
	"github.com/everline/everline/internal/web"
)

// emit keeps an event for those who ask later.
func (d *daemon) emit(e event.Event) {
	d.history.Event(e) // before the journal, which wakes those who look at both
	d.journal.Record(e)
}

// keepable is what a capture keeps of params: the arguments, without secrets.
func (d *daemon) keepable(params []byte) string {
	var p struct{ Arguments json.RawMessage }
	if json.Unmarshal(params, &p) != nil || len(p.Arguments) == 0 {
		return ""
	}
	return (*d.hide.Load())(audit.Masked(p.Arguments))
}

// page is the web page of the endpoint.
func (d *daemon) page() *web.Site {
	return web.New(web.Options{
		API: d.api, Hub: d.hub, Journal: d.journal, History: d.history, Endpoint: d.parts.endpoint, StateDir: d.parts.stateDir,
		Local: d.parts.local, Host: d.gateway.HasHost, Capture: d.capture, Unlock: d.unlocked,
		Effective: func() []byte { return visible.JSON(settings.Effective(d.hub.Config(), false)) },
	})
}

// pageOf opens the page of a daemon whose page is made after the admin API.
type pageOf struct{ d *daemon }

func (p pageOf) Link() (string, error) { return p.d.site.Link() }
func (p pageOf) Revoke() error         { return p.d.site.Revoke() }

// withPage serves the page beside the gateway, whose guard is made for clients
// and lets pages of other origins in.
func (d *daemon) withPage(gateway http.Handler) http.Handler {
	if d.site == nil {
		return gateway
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if web.Serves(r.URL.Path) {
			d.site.ServeHTTP(w, r)
			return
		}
		gateway.ServeHTTP(w, r)
	})
}
