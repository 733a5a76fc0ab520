package upstream

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
)

func manyTools(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
	}
	return out
}

func listAll(t *testing.T, u *Upstream, old *catalog.Catalog, kinds ...catalog.Kind) *catalog.Catalog {
	t.Helper()
	cat, err := u.List(t.Context(), old, kinds...)
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	return cat
}

func TestFaultG4_AllPagesOfAllKinds(t *testing.T) {
	var prompts, resources, templates []string
	for i := range 101 {
		prompts = append(prompts, fmt.Sprintf(`{"name":"p%d"}`, i))
		resources = append(resources, fmt.Sprintf(`{"name":"r","uri":"file:///%d"}`, i))
		templates = append(templates, fmt.Sprintf(`{"name":"t","uriTemplate":"file:///%d/{x}"}`, i))
	}
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		synctest.Test(t, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{
				Era: era, PageSize: 50, TTL: 5000,
				Tools: manyTools(101), Prompts: prompts, Resources: resources, Templates: templates,
			})
			u, _ := inMemory(t, s)
			cat := listAll(t, u, nil)
			for _, k := range catalog.Kinds {
				if n := len(cat.Items[k]); n != 101 {
					t.Errorf("%v: %d items, want 101", k, n)
				}
				if n := s.Count(k.Method()); n != 3 {
					t.Errorf("%v: %d requests, want 3", k, n)
				}
			}
			if want := map[bool]time.Duration{true: 5 * time.Second}[era == mcptest.Modern]; cat.Fresh() != want {
				t.Errorf("fresh for %v, want %v", cat.Fresh(), want)
			}
		})
	}
}

// An empty string is a cursor; null and absence end the list.
func TestFaultG4_EmptyCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		tools := manyTools(3)
		s.Next("tools/list", 1, mcptest.Reply{Result: `{"tools":[` + tools[0] + `],"nextCursor":""}`})
		s.Next("tools/list", 1, mcptest.Reply{Result: `{"tools":[` + tools[1] + `],"nextCursor":null}`})
		u, _ := inMemory(t, s)
		if cat := listAll(t, u, nil); len(cat.Items[0]) != 2 {
			t.Errorf("%d tools, want 2", len(cat.Items[0]))
		}
		if p := string(s.Requests("tools/list")[1].Params); !strings.Contains(p, `"cursor":""`) {
			t.Errorf("second page asked with %s", p)
		}
	})
}

// A cursor that the server has forgotten: everything is read anew, once.
func TestFaultG4_StaleCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{Tools: manyTools(4), PageSize: 2})
		bad := mcptest.Reply{Error: `{"code":-32602,"message":"Invalid cursor"}`}
		s.Next("tools/list", 1, mcptest.Reply{Result: `{"tools":[` + manyTools(1)[0] + `],"nextCursor":"x"}`})
		s.Next("tools/list", 1, bad)
		u, _ := inMemory(t, s)
		if cat := listAll(t, u, nil); len(cat.Items[0]) != 4 {
			t.Errorf("%d tools, want 4", len(cat.Items[0]))
		}
	})
}

func TestFaultG5_PagesWithoutEnd(t *testing.T) {
	page := func(cursor string) *mcptest.Reply {
		return &mcptest.Reply{Result: `{"tools":[` + strings.Join(manyTools(8), ",") + `],"nextCursor":"` + cursor + `"}`}
	}
	n := 0
	for name, script := range map[string]func(*mcptest.Request) *mcptest.Reply{
		"same":  func(*mcptest.Request) *mcptest.Reply { return page("a") },
		"cycle": func(*mcptest.Request) *mcptest.Reply { n++; return page([]string{"a", "b"}[n%2]) },
		"fresh": func(*mcptest.Request) *mcptest.Reply { n++; return page(fmt.Sprint(n)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mcptest.New(mcptest.Config{})
				s.On("tools/list", script)
				u, _ := inMemory(t, s)
				cat := listAll(t, u, nil)
				if len(cat.Items[0]) != 8 {
					t.Errorf("%d tools, want 8", len(cat.Items[0]))
				}
				if !strings.Contains(strings.Join(cat.Warnings[catalog.Tools], "\n"), "bad pagination") {
					t.Errorf("warnings %q", cat.Warnings)
				}
				if asked, most := s.Count("tools/list"), map[string]int{"same": 2, "cycle": 3, "fresh": maxPages}[name]; asked > most {
					t.Errorf("asked %d times, want at most %d", asked, most)
				}
				good := &catalog.Catalog{}
				good.Items[catalog.Tools] = cat.Items[catalog.Tools][:3]
				kept := listAll(t, u, good)
				if len(kept.Items[catalog.Tools]) != 3 || !strings.Contains(strings.Join(kept.Warnings[catalog.Tools], "\n"), "the last good list is kept") {
					t.Errorf("with a good one there: %d tools, %q", len(kept.Items[catalog.Tools]), kept.Warnings)
				}
			})
		})
	}
}

func TestFaultG3_PartialIsNoList(t *testing.T) {
	for name, rep := range map[string]mcptest.Reply{
		"-32603":  {Error: `{"code":-32603,"message":"Internal error"}`},
		"no list": {Result: `{}`, Raw: `{"jsonrpc":"2.0","id":1,"result":7}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mcptest.New(mcptest.Config{Tools: manyTools(3), PageSize: 1})
				u, _ := inMemory(t, s)
				old := listAll(t, u, nil)
				n := 0
				s.On("tools/list", func(r *mcptest.Request) *mcptest.Reply {
					n++
					if n < 3 {
						return nil
					}
					if rep.Raw != "" {
						return &mcptest.Reply{Raw: `{"jsonrpc":"2.0","id":` + string(r.ID) + `,"result":7}`}
					}
					return &rep
				})
				if cat, err := u.List(t.Context(), old); err == nil {
					t.Errorf("a list without its third page: %d tools", len(cat.Items[0]))
				}
				s.On("tools/list", nil)
				if cat := listAll(t, u, old); len(cat.Items[0]) != 3 {
					t.Errorf("%d tools after it healed", len(cat.Items[0]))
				}
			})
		})
	}
}

func TestFaultG11_EmptyAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		s.Next("tools/list", 1, mcptest.Reply{Result: `{"tools":[]}`})
		u, _ := inMemory(t, s)
		begun := time.Now()
		cat := listAll(t, u, nil)
		if len(cat.Items[0]) != 3 || time.Since(begun) != emptyPause {
			t.Errorf("%d tools after %v", len(cat.Items[0]), time.Since(begun))
		}
		// Later an empty list is believed: the server had its time.
		s.SetTools()
		if cat := listAll(t, u, cat); len(cat.Items[0]) != 0 || s.Count("tools/list") != 3 {
			t.Errorf("%d tools, %d requests", len(cat.Items[0]), s.Count("tools/list"))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{Prompts: []string{}})
		u, _ := inMemory(t, s)
		old := &catalog.Catalog{}
		old.Items[catalog.Prompts] = []catalog.Item{{Name: "p", Raw: []byte(`{"name":"p"}`)}}
		listAll(t, u, old)
		if n := s.Count("prompts/list"); n != 2 {
			t.Errorf("an empty list where there was one was asked for %d times, want 2", n)
		}
		listAll(t, u, nil, catalog.Prompts)
		if n := s.Count("prompts/list"); n != 3 {
			t.Errorf("asked %d times, want 3", n)
		}
	})
}

func TestFaultM1_UndeclaredIsNotAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		if cat := listAll(t, u, nil); len(cat.Items[0]) != 3 {
			t.Errorf("%d tools", len(cat.Items[0]))
		}
		for _, m := range []string{"prompts/list", "resources/list", "resources/templates/list"} {
			if s.Count(m) != 0 {
				t.Errorf("%s was asked for", m)
			}
		}
	})
	// Declared, and refused all the same: there are none.
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{Resources: []string{`{"name":"r","uri":"x:1"}`}, Prompts: []string{`{"name":"p"}`}})
		gone := mcptest.Reply{Error: `{"code":-32601,"message":"Method not found"}`}
		s.Next("resources/templates/list", 1, gone)
		s.Next("prompts/list", 1, gone)
		u, _ := inMemory(t, s)
		cat := listAll(t, u, nil)
		if len(cat.Items[catalog.Resources]) != 1 || len(cat.Items[catalog.Prompts]) != 0 {
			t.Errorf("catalog %+v", cat.Items)
		}
	})
}

func TestFaultM2_WhatDeclaresTools(t *testing.T) {
	for caps, want := range map[string]struct{ tools, asked int }{
		`{"tools":{}}`:                   {3, 1},
		`{"tools":{"listChanged":true}}`: {3, 1},
		`{}`:                             {3, 1}, // asked once, in case
		`{"tools":null}`:                 {3, 1},
		`{"tools":null,"prompts":{}}`:    {0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{Capabilities: caps})
			u, _ := inMemory(t, s)
			cat := listAll(t, u, nil)
			if len(cat.Items[0]) != want.tools || s.Count("tools/list") != want.asked {
				t.Errorf("%s: %d tools after %d requests, want %+v", caps, len(cat.Items[0]), s.Count("tools/list"), want)
			}
		})
	}
	// A server without any tools is asked once, and not again; silence is no failure.
	for name, rep := range map[string]mcptest.Reply{
		"-32601": {Error: `{"code":-32601,"message":"Method not found"}`},
		"silent": {Hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mcptest.New(mcptest.Config{Capabilities: `{"logging":{}}`})
				s.Next("tools/list", 9, rep)
				u, _ := inMemory(t, s)
				for range 3 {
					if cat := listAll(t, u, nil); len(cat.Items[0]) != 0 {
						t.Error("tools from nowhere")
					}
				}
				if n := s.Count("tools/list"); n != 1 {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}

// Kinds that are not asked for come from the old catalog.
func TestListOfSomeKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{Prompts: []string{`{"name":"p"}`}})
		u, _ := inMemory(t, s)
		old := listAll(t, u, nil)
		s.SetTools(manyTools(1)...)
		s.SetList(1)
		cat := listAll(t, u, old, catalog.Tools)
		if len(cat.Items[catalog.Tools]) != 1 || len(cat.Items[catalog.Prompts]) != 1 || s.Count("prompts/list") != 1 {
			t.Errorf("%d tools, %d prompts, %d requests for prompts", len(cat.Items[0]), len(cat.Items[1]), s.Count("prompts/list"))
		}
	})
}

// Modern HTTP drops tools whose header annotations are invalid; others keep them.
func TestInvalidHeaderAnnotations(t *testing.T) {
	tools := []string{
		`{"name":"good","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}}`,
		`{"name":"bad","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":""}}}}`,
	}
	for era, want := range map[mcptest.Era]int{mcptest.Modern: 1, mcptest.Legacy: 2} {
		s := mcptest.New(mcptest.Config{Era: era, Tools: tools})
		opts, _ := options(overWeb(t, s))
		u := start(t, opts)
		cat := listAll(t, u, nil)
		if len(cat.Items[0]) != want {
			t.Errorf("era %d: %d tools, want %d", era, len(cat.Items[0]), want)
		}
		good := cat.Items[0][0]
		_, err := u.Call(t.Context(), &Call{
			Method: "tools/call", Name: good.Name, Headers: good.Headers,
			Params: []byte(`{"name":"published__good","arguments":{"r":"eu-west"}}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		r := s.Requests("tools/call")[0]
		if !strings.Contains(string(r.Params), `"name":"good"`) {
			t.Errorf("params %s", r.Params)
		}
		wantHeader := map[mcptest.Era]string{mcptest.Modern: "eu-west"}[era]
		if got := r.Header.Get("Mcp-Param-Region"); got != wantHeader {
			t.Errorf("era %d: Mcp-Param-Region %q, want %q", era, got, wantHeader)
		}
	}
}
