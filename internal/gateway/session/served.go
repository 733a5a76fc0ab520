package session

import (
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// Served are the kinds of requests that a client has declared to serve, and whether
// it shows MCP Apps.
type Served uint8

const (
	servesForm Served = 1 << iota // elicitation in a form
	servesURL                     // elicitation at a URL
	servesSampling
	servesSamplingTools
	servesRoots
	showsUI
)

// Asks is what servers may ask the client for.
func (s Served) Asks() Served { return s &^ showsUI }

// ReadServed reads client capabilities. {} declares a capability, null does
// not; elicitation that names no mode is in a form.
func ReadServed(capabilities []byte) Served {
	var s Served
	for key, val := range wire.Members(capabilities) {
		if !wire.IsObject(val) {
			continue
		}
		switch key {
		case "elicitation":
			url := wire.IsObject(wire.Get(val, "url"))
			if url {
				s |= servesURL
			}
			if !url || wire.IsObject(wire.Get(val, "form")) {
				s |= servesForm
			}
		case "sampling":
			s |= servesSampling
			if wire.IsObject(wire.Get(val, "tools")) {
				s |= servesSamplingTools
			}
		case "roots":
			s |= servesRoots
		case "extensions":
			if wire.IsObject(wire.Get(val, mcp.ExtensionUI)) {
				s |= showsUI
			}
		}
	}
	return s
}

// Declaration is s as client capabilities for a modern server; nil for nothing.
func (s Served) Declaration() []byte {
	var parts []string
	switch s & (servesForm | servesURL) {
	case servesForm:
		parts = append(parts, `"elicitation":{"form":{}}`)
	case servesURL:
		parts = append(parts, `"elicitation":{"url":{}}`)
	case servesForm | servesURL:
		parts = append(parts, `"elicitation":{"form":{},"url":{}}`)
	default:
	}
	switch {
	case s&servesSamplingTools != 0:
		parts = append(parts, `"sampling":{"tools":{}}`)
	case s&servesSampling != 0:
		parts = append(parts, `"sampling":{}`)
	}
	if s&servesRoots != 0 {
		parts = append(parts, `"roots":{}`)
	}
	if s&showsUI != 0 {
		parts = append(parts, `"extensions":{`+mcp.DeclaredUI+`}`)
	}
	if parts == nil {
		return nil
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

// Unnamed is what a request of a method lacks that no revision defines: which
// capability it needs its extension alone says.
const Unnamed = `{}`

// Lacks is the capability that a request needs and s does not have, as client
// capabilities; "" if there is none.
func (s Served) Lacks(method string, params []byte) string {
	need, text := servesRoots, `{"roots":{}}`
	switch method {
	case mcp.ElicitationCreate:
		need, text = servesForm, `{"elicitation":{"form":{}}}`
		if mode, _ := wire.Text(wire.Get(params, "mode")); mode == "url" {
			need, text = servesURL, `{"elicitation":{"url":{}}}`
		}
	case mcp.SamplingCreateMessage:
		need, text = servesSampling, `{"sampling":{}}`
		if wire.IsArray(wire.Get(params, "tools")) {
			need, text = servesSamplingTools, `{"sampling":{"tools":{}}}`
		}
	case mcp.RootsList:
	default:
		return Unnamed
	}
	if s&need != 0 {
		return ""
	}
	return text
}

func Undeclared(method, lacking string) *fault.Fault {
	return fault.New(fault.Unsupported, method, "the client whose call this request belongs to has not declared what it needs: "+lacking)
}
