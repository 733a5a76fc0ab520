// Package catalog holds what servers offer: an immutable Catalog per server,
// and the Table that merges them under exposed names. It fetches nothing.
package catalog

import (
	"time"

	"github.com/everline/everline/internal/mcp"
)

// Kind is one of the four things that a server lists.
type Kind uint8

const (
	Tools Kind = iota
	Prompts
	Resources
	Templates // resource templates
)

// Kinds are all kinds, in the order in which they are listed.
var Kinds = [...]Kind{Tools, Prompts, Resources, Templates}

// String returns the result member that holds the items: "tools", "prompts",
// "resources", "resourceTemplates".
func (k Kind) String() string {
	return [...]string{"tools", "prompts", "resources", "resourceTemplates"}[k]
}

// Method returns the list method: "tools/list", "prompts/list",
// "resources/list", "resources/templates/list".
func (k Kind) Method() string {
	return [...]string{mcp.ToolsList, mcp.PromptsList, mcp.ResourcesList, mcp.ResourcesTemplatesList}[k]
}

// An Item is one tool, prompt, resource or template.
type Item struct {
	// Name is what the server calls it: the name of a tool or prompt, the URI
	// of a resource, the URI template of a template.
	Name string
	Raw  []byte // the whole object as the server sent it; repaired where Read had to
	// Sent is the name as JSON that the server knows, where that is no text and
	// Name has U+FFFD for it; else nil.
	Sent []byte
	Hints
	Headers []mcp.HeaderParam // tools: arguments that are mirrored in Mcp-Param-* headers
	// BadHeaders is why the x-mcp-header annotations of a tool break the
	// specification; "" if they do not. Headers is then empty. See DropBadHeaders.
	BadHeaders string
}

// Hints are a tool's claims about itself, from its annotations.
type Hints struct {
	ReadOnly   bool
	Idempotent bool
}

// A Catalog is what one server offered at one time. It is never changed.
type Catalog struct {
	Items        [4][]Item // by Kind
	Instructions string
	ServerInfo   []byte // raw; nil if unknown
	Capabilities []byte // raw, the server's own; nil if unknown
	At           time.Time
	Warnings     [4][]string      // by Kind: what had to be repaired or dropped, naming the item
	TTL          [4]time.Duration // by Kind: how long the list is fresh (modern ttlMs); 0 if not said
}

// Fresh is how long all of c is fresh; 0 if no list says so.
func (c *Catalog) Fresh() time.Duration {
	var least time.Duration
	for _, ttl := range c.TTL {
		if ttl > 0 && (least == 0 || ttl < least) {
			least = ttl
		}
	}
	return least
}
