package upstream

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
)

// FuzzPages answers the pages of a listing with anything: a listing ends, with
// names that are there once or with an error, and a server that behaves again
// is listed as it is.
func FuzzPages(f *testing.F) {
	f.Add(`{"tools":[{"name":"a"}],"nextCursor":"x"}`, `{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":""}`, `{"tools":[]}`)
	f.Add(`{"tools":null,"nextCursor":null}`, `[]`, `{"nextCursor":7,"tools":[]}`)
	f.Add(`{"tools":[7,{"name":""},{"name":"a","inputSchema":null}],"nextCursor":{}}`, ``, `{`)
	f.Fuzz(func(t *testing.T, first, second, third string) {
		for _, p := range []string{first, second, third} {
			if strings.ContainsAny(p, "\n\r") {
				return // no frame
			}
		}
		synctest.Test(t, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{})
			n := 0
			s.On("tools/list", func(*mcptest.Request) *mcptest.Reply {
				n++
				return &mcptest.Reply{Result: []string{first, second, third}[(n-1)%3]}
			})
			u, _ := inMemory(t, s)
			list := func() (*catalog.Catalog, error) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // what is no message is no answer
				defer cancel()
				return u.List(ctx, nil)
			}
			cat, err := list()
			if (cat == nil) == (err == nil) {
				t.Fatalf("%v, %v", cat, err)
			}
			if cat != nil {
				seen := map[string]bool{}
				for _, i := range cat.Items[catalog.Tools] {
					if i.Name == "" || seen[i.Name] {
						t.Errorf("%q is empty or there twice", i.Name)
					}
					seen[i.Name] = true
				}
			}
			s.On("tools/list", nil)
			if u.Err() != nil {
				return // what was no message ended the link
			}
			if cat, err := list(); err != nil || len(cat.Items[catalog.Tools]) != 3 {
				t.Errorf("when it behaves again: %v, %v", cat, err)
			}
		})
	})
}
