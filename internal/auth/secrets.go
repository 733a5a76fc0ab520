package auth

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/everline/everline/internal/visible"
)

const (
	hidden         = "***"
	shortestSecret = 6
	maxSecrets     = 512 // the oldest are over
	maxWords       = 300 // of what an issuer says, in bytes
)

// secrets are the values that have been learned and must not be shown: tokens,
// codes, verifiers, client secrets, assertions.
type secrets struct {
	mu       sync.Mutex // guards list; held for moments
	list     []string   // the oldest first
	replacer atomic.Pointer[strings.Replacer]
}

// learn takes note of values. Those that are too short to be told from other
// text are left out.
func (s *secrets) learn(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := false
	for _, v := range values {
		if len(v) >= shortestSecret && !slices.Contains(s.list, v) {
			s.list = append(s.list, v)
			changed = true
		}
	}
	if !changed {
		return
	}
	if over := len(s.list) - maxSecrets; over > 0 {
		s.list = slices.Delete(s.list, 0, over)
	}
	s.replacer.Store(nil)
}

// Hide replaces every value that was learned, in the forms in which it is sent.
func (s *secrets) Hide(text string) string {
	r := s.replacer.Load()
	if r == nil {
		r = s.build()
	}
	return r.Replace(text)
}

func (s *secrets) build() *strings.Replacer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, v := range s.list {
		all = append(all, v, url.QueryEscape(v), base64.StdEncoding.EncodeToString([]byte(v)))
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) }) // none may leave a part of another
	pairs := make([]string, 0, 2*len(all))
	for _, v := range slices.Compact(all) {
		pairs = append(pairs, v, hidden)
	}
	r := strings.NewReplacer(pairs...)
	s.replacer.Store(r)
	return r
}

// words are a text of somebody else, as it may be shown: bounded, with nothing
// secret and nothing invisible in it.
func (s *secrets) words(text string) string {
	text = strings.Join(strings.Fields(visible.Text(s.Hide(text))), " ")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return text
}
