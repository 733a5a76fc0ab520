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

// maxSettings is how long the settings of an extension may be that a server declares.
const maxSettings = 4096

// An offered is what is declared to clients while a table is out.
type offered struct {
	table  *everline.Catalog
	older  string // extensions and experimental, with a comma behind; "" if no server has them. Tasks are of the modern era alone
	tasks  string // of 2025-11-25, with a comma behind; "" if no server has them
	modern string // whole
	ext    bool   // some server has tasks, in the words of either era
}

// offer is what is declared while this table is out. Tasks are declared if a server
// has them, of whichever kind, and so are extensions and what is experimental, with the settings of the first that has each.
func offer(table *everline.Catalog) *offered {
	o := &offered{table: table}
	var has, cancel, calls bool
	extensions, experimental := []byte("{}"), []byte("{}")
	for _, raw := range table.Capabilities() {
		extensions = firsts(extensions, wire.Get(raw, "extensions"))
		experimental = firsts(experimental, wire.Get(raw, "experimental"))
		o.ext = o.ext || wire.IsObject(wire.Get(raw, "extensions", mcp.ExtensionTasks))
		if t := wire.Get(raw, "tasks"); wire.IsObject(t) {
			has = true
			cancel = cancel || wire.IsObject(wire.Get(t, "cancel"))
			calls = calls || wire.IsObject(wire.Get(t, "requests", "tools", "call"))
		}
	}
	has, cancel, calls, o.ext = has || o.ext, cancel || o.ext, calls || o.ext, o.ext || calls // in whose words the client has them is its own matter
	if len(experimental) > len("{}") {
		o.older = `"experimental":` + string(experimental) + ","
	}
	o.modern = "{" + o.older + modernCapabilities[1:]
	if len(extensions) > len("{}") {
		o.older += `"extensions":` + string(extensions) + ","
	}
	if o.ext {
		extensions = wire.Set(extensions, []byte("{}"), mcp.ExtensionTasks)
	}
	if len(extensions) > len("{}") {
		o.modern = `{"extensions":` + string(extensions) + "," + o.modern[1:]
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

// firsts adds to members those of more that are objects, not too long, and not there yet.
func firsts(members, more []byte) []byte {
	for name, settings := range wire.Members(more) {
		if wire.IsObject(settings) && len(settings) <= maxSettings && name != mcp.ExtensionTasks && wire.Get(members, name) == nil {
			members = wire.Set(members, settings, name)
		}
	}
	return members
}

// legacy is what a client of an older version is told.
func (o *offered) legacy(version string) string {
	tasks := o.tasks
	if version != mcp.LatestLegacy {
		tasks = ""
	}
	return "{" + o.older + tasks + legacyCapabilities[1:]
}
