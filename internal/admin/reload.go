package admin

import (
	"context"
	"net/http"
	"net/url"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
)

// Reload is the answer of POST /v1/reload: what reading the configuration
// again changes. With ?dryRun=1 nothing is changed.
type Reload struct {
	Applied   bool     `json:"applied"`
	Added     []string `json:"added"`
	Removed   []string `json:"removed"`
	Restarted []string `json:"restarted"` // changed in what a running generation depends on
	Adjusted  []string `json:"adjusted"`  // changed in settings that need no new generation
	Kept      int      `json:"kept"`
	Warnings  []string `json:"warnings"` // of the files, and of servers that cannot run as configured
}

// ShapeReload describes the way from one configuration to the next.
func ShapeReload(old, next *config.Config) Reload {
	plan := config.Diff(old, next)
	r := Reload{Added: listed(plan.Add), Removed: listed(plan.Remove), Restarted: []string{}, Adjusted: []string{}, Kept: len(plan.Keep), Warnings: []string{}}
	for _, name := range plan.Change {
		before, _ := old.Server(name)
		will, _ := next.Server(name)
		if before.Revision() != will.Revision() {
			r.Restarted = append(r.Restarted, name)
		} else {
			r.Adjusted = append(r.Adjusted, name)
		}
	}
	for _, w := range next.Warnings {
		r.Warnings = append(r.Warnings, w.String())
	}
	for _, s := range next.Servers {
		if s.Err != nil {
			r.Warnings = append(r.Warnings, s.Name+" is misconfigured: "+s.Err.Reason())
		}
	}
	return r
}

// listed never returns nil, so that JSON shows an empty list.
func listed(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}

func (a *API) reload(w http.ResponseWriter, r *http.Request) {
	if a.opts.Reload == nil {
		a.fail(w, fault.New(fault.Unsupported, "reload", "this everline has no configuration files"))
		return
	}
	dry := r.URL.Query().Get("dryRun")
	dryRun := dry == "1" || dry == "true"
	done, err := a.opts.Reload(r.Context(), dryRun)
	if err != nil {
		a.fail(w, err)
		return
	}
	if !dryRun {
		a.Operated(r, "", "reload", "")
	}
	answer(w, http.StatusOK, done)
}

// Reload is POST /v1/reload.
func (c *Client) Reload(ctx context.Context, dryRun bool) (Reload, error) {
	query := url.Values{}
	if dryRun {
		query.Set("dryRun", "1")
	}
	var r Reload
	body, err := c.do(ctx, http.MethodPost, "/v1/reload?"+query.Encode(), nil)
	if err != nil {
		return r, err
	}
	defer body.Close()
	return r, decode(body, &r)
}
