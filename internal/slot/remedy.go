package slot

import (
	"cmp"
	"net/http"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/lifecycle"
	"github.com/everline/everline/internal/typed"
)

// Remedy is what a person can do about the state that the view shows, as a
// command or a sentence; "" if nothing needs doing.
func (v *View) Remedy() string {
	name := v.Server.Name
	switch seen := v.Seen(); seen {
	case event.StateDisabled, event.StateDisabling:
		return enableRemedy(name)
	case event.StateAuthRequired, event.StateMisconfigured:
		return stoppedRemedy(&v.Server, v.State.Stopped, v.Cause)
	case event.StateFailed, event.StateDisconnected, event.StateConnecting, event.StateReconnecting:
		if v.State.Attempt == 0 && (seen == event.StateConnecting || seen == event.StateReconnecting) {
			return "" // no attempt of this outage has failed
		}
		if v.Cause != nil && v.Cause.Remedy != "" {
			return v.Cause.Remedy
		}
		if v.Server.Command != "" && (v.Cause == nil || len(v.Cause.Stderr) > 0) {
			return "everline logs " + typed.Argument(name)
		}
		return cmp.Or(remedyForURL(v.Cause), reconnectRemedy(name))
	default:
		return ""
	}
}

func enableRemedy(name string) string { return "everline enable " + typed.Argument(name) }

func reconnectRemedy(name string) string { return "everline reconnect " + typed.Argument(name) }

// stoppedRemedy is what a person can do about a server that is stopped.
func stoppedRemedy(server *config.Server, why lifecycle.Reason, cause *fault.Fault) string {
	if cause != nil && cause.Remedy != "" {
		return cause.Remedy
	}
	name := server.Name
	switch why {
	case lifecycle.Auth:
		return loginRemedy(server)
	case lifecycle.Config:
		return "everline doctor " + typed.Argument(name)
	case lifecycle.Missing:
		return "install the command, or run: everline doctor " + typed.Argument(name)
	case lifecycle.Ended:
		return reconnectRemedy(name)
	case lifecycle.Budget, lifecycle.None:
	}
	return ""
}

// loginRemedy is what a person can do about a server that refuses what it is
// shown: of a login another one, of what is configured to correct it.
func loginRemedy(server *config.Server) string {
	for header := range server.Headers {
		if http.CanonicalHeaderKey(header) == "Authorization" {
			return `correct "headers" of ` + typed.Argument(server.Name) + " (" + server.Origin.String() + "), then: " + reconnectRemedy(server.Name)
		}
	}
	return "everline auth login " + typed.Argument(server.Name)
}

// remedyForURL is what helps where a server behind a URL fails in this way; ""
// if nothing but to try again.
func remedyForURL(f *fault.Fault) string {
	switch {
	case f == nil:
		return ""
	case f.Kind == fault.Unauthorized, f.Kind == fault.Forbidden, f.Status == http.StatusUnauthorized:
		return `check the credentials under "headers"`
	case f.Kind == fault.Dial:
		return `check that the server runs, and the host and port in "url"`
	case f.Kind == fault.Protocol:
		return `check "url": what answers there does not speak MCP`
	case f.Kind != fault.HTTPStatus:
		return ""
	case f.Status >= http.StatusInternalServerError:
		return "look into the server's own log"
	default:
		return `check the path in "url"`
	}
}
