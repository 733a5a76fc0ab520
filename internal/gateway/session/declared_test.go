package session

import (
	"strings"
	"testing"

	"github.com/everline/everline/internal/mcp"
)

// Each modern request declares anew, and most say the same: what came last of what can be
// kept is what counts, however often it was said before.
func TestOffersOfModernRequests(t *testing.T) {
	st := newTestStore()
	defer st.Close()
	s := st.New(mcp.LatestLegacy)
	one, two, other := `{"extensions":{"com.example/one":{"a":1}}}`, `{"extensions":{"com.example/two":{"a":1}}}`, `{"experimental":{"other":{}}}`
	long := `{"extensions":{"com.example/long":{"a":"` + strings.Repeat("x", maxMore) + `"}}}`
	var buffer []byte // of one request after the other
	for i, said := range []struct{ offer, kept string }{
		{one, one},
		{one, one},
		{two, two},
		{`{}`, two},
		{other, other},
		{one, one},
		{long, ""},
		{one, one},
		{long, ""},
		{long, ""},
		{other, other},
		{`{"elicitation":{}}`, `{"elicitation":{"form":{}},"experimental":{"other":{}}}`},
	} {
		buffer = append(buffer[:0], said.offer...)
		s.Offer(ReadServed(buffer), buffer)
		if got := string(s.declaration()); got != said.kept {
			t.Fatalf("after the %d: %s, want %s", i+1, got, said.kept)
		}
	}
}

// A client of both eras, on one connection, has what it has said last: its handshake is
// not what the request before it has declared.
func TestAnOfferAfterAHandshake(t *testing.T) {
	st := newTestStore()
	defer st.Close()
	s := st.New(mcp.LatestLegacy)
	one, two := `{"extensions":{"com.example/one":{"a":1}}}`, `{"extensions":{"com.example/two":{"a":1}}}`
	for range 2 {
		s.Offer(0, []byte(one))
		if got := string(s.declaration()); got != one {
			t.Errorf("the request: %s", got)
		}
		s.Declare([]byte(`{"capabilities":` + two + `}`))
		if got := string(s.declaration()); got != two {
			t.Errorf("the handshake: %s", got)
		}
	}
}
