package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/everline/everline/fault"
)

// capture is POST /api/v1/servers/NAME/capture: for ten minutes the arguments of its
// calls are kept.
func (s *Site) capture(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if _, ok := s.opts.Hub.Server(name); !ok {
		refuse(w, http.StatusNotFound, fault.NotFound, "no server is called "+name, "everline status")
		return
	}
	until := s.opts.Capture.Begin(name)
	s.opts.API.Operated(r, name, "capture", "until "+until.Format(time.TimeOnly))
	answer(w, Capture{until})
}

// Capture is the answer of POST /api/v1/servers/NAME/capture.
type Capture struct {
	Until time.Time `json:"until"`
}

// captureEnd is POST /api/v1/servers/NAME/capture-end: what was kept is gone.
func (s *Site) captureEnd(w http.ResponseWriter, r *http.Request) {
	s.opts.Capture.End(r.PathValue("name"))
	s.opts.API.Operated(r, r.PathValue("name"), "capture-end", "")
	answer(w, struct{}{})
}

// Captured is one call of GET /api/v1/servers/NAME/captured: newest first.
type Captured struct {
	Time      time.Time `json:"time"`
	Name      string    `json:"name"`
	Client    string    `json:"client"`
	Outcome   string    `json:"outcome"`
	Arguments string    `json:"arguments"` // JSON, but for secrets and what is cut
	Cut       bool      `json:"cut"`       // it was longer
}

func (s *Site) captured(w http.ResponseWriter, r *http.Request) {
	out := []Captured{}
	for _, c := range s.opts.Capture.Records(r.PathValue("name")) {
		one := Captured{Time: c.Time, Name: s.opts.API.Hide(c.Name), Outcome: c.Result.String(), Arguments: c.Params, Cut: c.Cut}
		if c.By != nil {
			one.Client = s.opts.API.Hide(strings.TrimSpace(c.By.Name + " " + c.By.Version))
		}
		out = append(out, one)
	}
	answer(w, out)
}
