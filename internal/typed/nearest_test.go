package typed

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"command", "args", "startupTimeout", "env"}
	for wrong, want := range map[string]string{
		"comand": "command", "Command": "command", "startup_timeout": "startupTimeout", "ags": "args",
		"evn": "env", "something": "", "": "", "startuptimeouts": "startupTimeout",
	} {
		if got := Nearest(wrong, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", wrong, got, want)
		}
	}
}
