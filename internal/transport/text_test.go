package transport

import "testing"

// TestFaultS9Lines has lines of children that are no text, and some that are.
func TestFaultS9Lines(t *testing.T) {
	for line, want := range map[string]string{
		"\x7fELF\x02\x01\x00": "7 bytes that are no text", "\xff\xfe\x80\x90 x": "6 bytes that are no text", "": "", "plain": "plain",
		"\x1b[31mred\x1b[0m": "\x1b[31mred\x1b[0m", "gr\xf6\xdfer in latin1": "gr?er in latin1", "50 %\b\b": "50 %\b\b",
	} {
		if got := LineText([]byte(line), "?"); got != want {
			t.Errorf("%q became %q", line, got)
		}
	}
}
