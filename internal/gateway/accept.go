package gateway

import (
	"slices"
	"strings"

	"github.com/everline/everline/internal/mcp"
)

// mediaRanges are the media ranges of Accept headers, in lower case, without
// their parameters.
func mediaRanges(values []string) []string {
	var all []string
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			kind, _, _ := strings.Cut(part, ";")
			all = append(all, strings.ToLower(strings.TrimSpace(kind)))
		}
	}
	return all
}

// accepted is what a client can read as the response to a POST.
type accepted struct{ json, events bool }

// readAccept is lenient: a client that says nothing can read everything.
func readAccept(values []string) accepted {
	if len(values) == 0 {
		return accepted{json: true, events: true}
	}
	var a accepted
	for _, kind := range mediaRanges(values) {
		switch kind {
		case "*/*":
			return accepted{json: true, events: true}
		case mcp.TypeJSON, "application/*":
			a.json = true
		case mcp.TypeEvents, "text/*":
			a.events = true
		}
	}
	return a
}

func namesEvents(values []string) bool {
	return slices.ContainsFunc(mediaRanges(values), func(kind string) bool { return kind == mcp.TypeEvents || kind == "text/*" })
}
