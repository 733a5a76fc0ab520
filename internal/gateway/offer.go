package gateway

import (
	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// These capabilities are the same for every client, and always all of them:
// servers come and go, and a client that was told once that there are no
// prompts would never ask again. A list that nobody fills is empty.
const (
	legacyCapabilities = `{"completions":{},"logging":{},"prompts":{"listChanged":true},` +
		`"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`
	modernCapabilities = `{"completions":{},"prompts":{"listChanged":true},` +
		`"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`
)

// An offered is what is declared to clients while a table is out.
type offered struct {
	table  *everline.Catalog
	tasks  string // of 2025-11-25, with a comma behind; "" if no server has them
	modern string // whole
	ext    bool   // some server has the tasks extension
}

// offer is what is declared while this table is out. Tasks are declared if a server
// has them.
func offer(table *everline.Catalog) *offered {
	o := &offered{table: table, modern: modernCapabilities}
	var has, cancel, calls bool
	for raw := range table.Capabilities() {
		o.ext = o.ext || wire.IsObject(wire.Get(raw, "extensions", mcp.ExtensionTasks))
		if t := wire.Get(raw, "tasks"); wire.IsObject(t) {
			has = true
			cancel = cancel || wire.IsObject(wire.Get(t, "cancel"))
			calls = calls || wire.IsObject(wire.Get(t, "requests", "tools", "call"))
		}
	}
	if o.ext {
		o.modern = `{"extensions":{"` + mcp.ExtensionTasks + `":{}},` + modernCapabilities[1:]
	}
	if has {
		o.tasks = `"tasks":{"list":{}`
		if cancel {
			o.tasks += `,"cancel":{}`
		}
		if calls {
			o.tasks += `,"requests":{"tools":{"call":{}}}`
		}
		o.tasks += "},"
	}
	return o
}

// legacy is what a client of an older version is told.
func (o *offered) legacy(version string) string {
	if version != mcp.LatestLegacy || o.tasks == "" {
		return legacyCapabilities
	}
	return "{" + o.tasks + legacyCapabilities[1:]
}
