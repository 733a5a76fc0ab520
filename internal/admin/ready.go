package admin

import "github.com/everline/everline/event"

// Ready tells whether everline serves, and every required server can take calls.
func (a *API) Ready() bool { return !a.stopping() && len(a.missing()) == 0 }

func (a *API) stopping() bool {
	select {
	case <-a.stop:
		return true
	default:
		return false
	}
}

// missing are the required servers that cannot take calls. One that is idle can.
func (a *API) missing() (names []string) {
	for _, s := range a.opts.Hub.Config().Servers {
		if !s.Required {
			continue
		}
		st, ok := a.opts.Hub.Server(s.Name)
		if !ok || st.State != event.StateConnected && st.State != event.StateIdle {
			names = append(names, s.Name)
		}
	}
	return names
}

// Memory is what a process and all below it hold; 0 if that is not known.
func (a *API) Memory(pid int) int64 { return a.memory.resident(pid) }
