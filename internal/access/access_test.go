package access

import (
	"os"
	"slices"
	"testing"
	"time"
)

func TestOneKeyForOneIdentity(t *testing.T) {
	soon := time.Now().Add(time.Minute)
	all := []*Identity{
		Anonymous, User(4711), User(os.Geteuid()), Token("a", "ci", "", time.Time{}), Token("b", "ci", "", time.Time{}),
		JWT("https://a", "x", nil, nil, soon), JWT("https://b", "x", nil, nil, soon), JWT("https://a", "y", nil, nil, soon), MTLS("x", soon),
	}
	for i, a := range all {
		for j, b := range all {
			if a.Is(b) != (i == j) {
				t.Errorf("%s is %s: %v", a.Key(), b.Key(), a.Is(b))
			}
		}
	}
	renewed := JWT("https://a", "x", []string{"more"}, nil, soon.Add(time.Hour))
	if !renewed.Is(all[5]) || !Local().Is(User(os.Geteuid())) {
		t.Error("a new token is another identity")
	}
}

func TestAnEntitlementIsOfWhatIsGrantedFor(t *testing.T) {
	soon := time.Now().Add(time.Minute)
	claims := func(value string) map[string][]string { return map[string][]string{"groups": {value}} }
	all := []*Identity{
		JWT("https://a", "x", nil, nil, soon), JWT("https://a", "x", []string{"read"}, nil, soon), JWT("https://a", "x", nil, claims("read"), soon),
		JWT("https://a", "x\" \"scope:read", nil, nil, soon), JWT("https://a", "x", []string{"read\"\"sub:x"}, nil, soon),
		Token("a", "ci", "", soon), Token("a", "ci", "read", soon), Token("a", "ci\"\"read", "", soon), Local(), Anonymous,
	}
	for i, a := range all {
		for j, b := range all {
			if (a.Entitlement() == b.Entitlement()) != (i == j) {
				t.Errorf("%s and %s", a.Entitlement(), b.Entitlement())
			}
		}
	}
	if made(*Anonymous).Entitlement() != Anonymous.Entitlement() {
		t.Error("nobody's is written in another way")
	}
	if JWT("https://a", "x", []string{"read"}, nil, soon.Add(time.Hour)).Entitlement() != all[1].Entitlement() {
		t.Error("a token that is renewed with the same scopes entitles to something else")
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		id   *Identity
		want []string
	}{
		{User(os.Geteuid()), []string{User(os.Geteuid()).Key(), "uid:self"}},
		{User(70_000), []string{"uid:70000"}},
		{Token("a", "ci", "read", time.Time{}), []string{"token:ci"}},
		{JWT("i", "s", []string{"mcp:read"}, map[string][]string{"groups": {"b", "a"}}, time.Time{}), []string{"claim:groups=a", "claim:groups=b", "scope:mcp:read", "sub:s"}},
		{MTLS("spiffe://x", time.Time{}), []string{"mtls:spiffe://x"}},
		{Anonymous, []string{"anonymous"}},
	} {
		if !slices.Equal(c.id.Labels(), c.want) {
			t.Errorf("%s: %q, want %q", c.id.Key(), c.id.Labels(), c.want)
		}
	}
	if got := Token("a", "ci", "read", time.Time{}).Policies(); !slices.Equal(got, []string{"read"}) {
		t.Errorf("the token brings %q", got)
	}
}

func TestFrom(t *testing.T) {
	id := MTLS("x", time.Time{})
	if From(t.Context()) != Anonymous || From(With(t.Context(), id)) != id {
		t.Error("a request is of somebody else")
	}
}

func TestExpired(t *testing.T) {
	now := time.Now()
	if MTLS("x", time.Time{}).Expired(now) || MTLS("x", now.Add(1)).Expired(now) || !MTLS("x", now).Expired(now) {
		t.Error("expired at the wrong time")
	}
}
