package admin

import (
	"context"
	"net/http"

	"github.com/everline/everline/event"
)

type web struct{}

// FromWeb marks the requests of the page, which are told apart from those of the
// command line.
func FromWeb(ctx context.Context) context.Context { return context.WithValue(ctx, web{}, true) }

func byWeb(r *http.Request) bool { return r.Context().Value(web{}) != nil }

// callerBy is who makes a call, as the records of calls name it.
func callerBy(r *http.Request) *event.Caller {
	if byWeb(r) {
		return &event.Caller{Name: "web page"}
	}
	return &event.Caller{Name: "everline call"}
}
