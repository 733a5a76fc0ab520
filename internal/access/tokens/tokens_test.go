package tokens

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/access"
)

func state(t *testing.T) string { return filepath.Join(t.TempDir(), "state") }

func create(t *testing.T, dir, name, policy string, expires time.Time) (string, Token) {
	t.Helper()
	token, kept, err := Create(dir, name, policy, expires)
	if err != nil {
		t.Fatal(err)
	}
	return token, kept
}

func refreshed(t *testing.T, v *Verifier) *Verifier {
	t.Helper()
	if _, err := v.Refresh(); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestALifeOfAToken(t *testing.T) {
	dir := state(t)
	token, kept := create(t, dir, "ci", "read", time.Time{})
	v := refreshed(t, NewVerifier(dir))
	who := v.Verify(token, time.Now())
	if who == nil || who.Kind() != access.KindToken || who.Name() != "ci" || who.Policies()[0] != "read" || who.Key() != "token:"+kept.ID || !v.Knows(who, time.Now()) {
		t.Fatalf("the token is of %+v", who)
	}
	second, _, err := Rotate(dir, "ci")
	if err != nil || second == token {
		t.Fatal(second, err)
	}
	refreshed(t, v)
	if v.Verify(token, time.Now()) == nil || v.Verify(token, time.Now().Add(Overlap)) != nil || !v.Verify(second, time.Now()).Is(who) {
		t.Error("the old token is not good for a day, or the new one is another identity")
	}
	if _, err := Revoke(dir, kept.ID); err != nil {
		t.Fatal(err)
	}
	refreshed(t, v)
	if v.Verify(second, time.Now()) != nil || v.Verify(token, time.Now()) != nil || v.Knows(who, time.Now()) {
		t.Error("a revoked token lets in")
	}
}

func TestNothingIsKeptOfAToken(t *testing.T) {
	dir := state(t)
	token, _ := create(t, dir, "ci", "", time.Time{})
	_, secret, _ := strings.Cut(strings.TrimPrefix(token, Prefix), "_")
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil || strings.Contains(string(text), secret) {
			t.Errorf("%s has the token, or cannot be read: %v", f.Name(), err)
		}
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v, %v", f.Name(), info.Mode(), err)
		}
	}
}

func TestWhatIsNoToken(t *testing.T) {
	dir := state(t)
	token, _ := create(t, dir, "ci", "", time.Time{})
	expired, _ := create(t, dir, "old", "", time.Now().Add(-time.Second))
	v := refreshed(t, NewVerifier(dir))
	last := byte('A')
	if token[len(token)-1] == last {
		last = 'E'
	}
	for _, text := range []string{
		"", "evl_", expired, token + " ", token[:len(token)-1], token[:len(token)-1] + string(last), strings.ToUpper(token),
		Prefix + localID + token[len(Prefix)+idLength:], Prefix + "aaaaaaaa" + token[len(Prefix)+idLength:],
	} {
		if who := v.Verify(text, time.Now()); who != nil {
			t.Errorf("%q is of %s", text, who.Key())
		}
	}
}

// Who came in with one policy does not stay in with it when the token has another.
func TestAnotherPolicyIsAnotherHolder(t *testing.T) {
	dir := state(t)
	token, _ := create(t, dir, "ci", "all", time.Time{})
	v := refreshed(t, NewVerifier(dir))
	was := v.Verify(token, time.Now())
	if !v.Knows(was, time.Now()) {
		t.Fatal("unknown")
	}
	if err := change(dir, func(all []Token) ([]Token, error) { all[0].Policy = "read"; return all, nil }); err != nil {
		t.Fatal(err)
	}
	refreshed(t, v)
	if v.Knows(was, time.Now()) || !v.Knows(v.Verify(token, time.Now()), time.Now()) {
		t.Error("the policy of before counts")
	}
}

func TestRefusals(t *testing.T) {
	dir := state(t)
	create(t, dir, "ci", "", time.Time{})
	_, _, again := Create(dir, "ci", "", time.Time{})
	_, _, nameless := Create(dir, "a b", "", time.Time{})
	_, unknown := Revoke(dir, "nobody")
	for want, err := range map[fault.Kind]error{fault.Conflict: again, fault.Invalid: nameless, fault.NotFound: unknown} {
		if f := fault.From("", err); f == nil || f.Kind != want || f.Remedy == "" {
			t.Errorf("%v, want %s with a remedy", err, want)
		}
	}
}

// TestADamagedFile keeps the tokens that were known, and overwrites nothing.
func TestADamagedFile(t *testing.T) {
	dir := state(t)
	token, _ := create(t, dir, "ci", "", time.Time{})
	v := refreshed(t, NewVerifier(dir))
	path := filepath.Join(dir, fileName)
	if err := os.WriteFile(path, []byte(`{"version":1,"tokens":[{"name":"x"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Refresh(); fault.From("", err) == nil || fault.From("", err).Kind != fault.Invalid {
		t.Errorf("the file is read: %v", err)
	}
	if _, err := v.Refresh(); err != nil {
		t.Errorf("the same is said twice: %v", err)
	}
	if v.Verify(token, time.Now()) == nil {
		t.Error("the token is lost")
	}
	if _, _, err := Create(dir, "other", "", time.Time{}); err == nil {
		t.Error("the damaged file is overwritten")
	}
}

func TestLastUsed(t *testing.T) {
	dir := state(t)
	token, _ := create(t, dir, "ci", "", time.Time{})
	create(t, dir, "other", "", time.Time{})
	v := refreshed(t, NewVerifier(dir))
	at := time.Now()
	v.Verify(token, at)
	v.written = time.Time{}
	refreshed(t, v)
	all, err := List(dir)
	if err != nil || !all[0].LastUsed.Equal(at.Truncate(time.Minute)) || !all[1].LastUsed.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestWhatHasChanged(t *testing.T) {
	dir := state(t)
	v := NewVerifier(dir)
	look := func(want bool) {
		t.Helper()
		if got, err := v.Refresh(); got != want || err != nil {
			t.Errorf("changed %v, want %v, %v", got, want, err)
		}
	}
	look(false)
	create(t, dir, "ci", "", time.Now().Add(time.Hour))
	look(true)
	look(false)
	v.expiry = time.Now()
	look(true)
	look(false)
}

func TestTheUsersOwn(t *testing.T) {
	dir := state(t)
	if Local(dir) != "" {
		t.Error("there is a token before one is made")
	}
	v := NewVerifier(dir)
	if err := v.MakeLocal(); err != nil {
		t.Fatal(err)
	}
	token := Local(dir)
	if who := v.Verify(token, time.Now()); who != access.Local() {
		t.Errorf("%q is of %v", token, who)
	}
	if err := v.MakeLocal(); err != nil {
		t.Fatal(err)
	}
	if v.Verify(token, time.Now()) != nil {
		t.Error("the token of a run before is good")
	}
}

// TestChangesAtTheSameTime loses none.
func TestChangesAtTheSameTime(t *testing.T) {
	dir := state(t)
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		all.Go(func() {
			if _, _, err := Create(dir, name, "", time.Time{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := List(dir); len(list) != 6 || err != nil {
		t.Errorf("%d tokens, %v", len(list), err)
	}
}

func BenchmarkVerify(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "state")
	token, _, err := Create(dir, "ci", "", time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	v := NewVerifier(dir)
	if _, err := v.Refresh(); err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		if v.Verify(token, now) == nil {
			b.Fatal("refused")
		}
	}
}
