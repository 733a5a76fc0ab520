package expand

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzURL puts any value into each part of a URL: it stays data.
func FuzzURL(f *testing.F) {
	for _, v := range []string{"a b", "a#b&c=d", "%41", "?", "a=b&c", "\ue002x\ue003", "ä\n"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		plain := strings.NewReplacer(dataOpen, "", dataClose, "").Replace(v)
		u, err := url.Parse(URL("https://u:" + AsData(v) + "@h/p/" + AsData(v) + "?k=" + AsData(v) + "&z=1"))
		if err != nil {
			t.Fatalf("%q: %v", v, err)
		}
		password, _ := u.User.Password()
		if password != plain || u.Path != "/p/"+plain || u.Query().Get("k") != plain || u.Query().Get("z") != "1" || u.Host != "h" || u.Fragment != "" {
			t.Fatalf("%q became %s", v, u)
		}
	})
}
