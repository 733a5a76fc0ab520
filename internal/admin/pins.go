package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/audit"
)

// Pins is the answer of GET /v1/pins.
type Pins struct {
	Mode    string      `json:"mode"` // "off", "warn" or "enforce"
	File    string      `json:"file"` // the lock file; "" where pins are off
	Changes []PinChange `json:"changes"`
	Problem *Problem    `json:"problem"` // why the file does not say what is in force; null if it does
}

// PinChange is one definition that is not as it was approved.
type PinChange struct {
	Server   string          `json:"server"`
	Tool     string          `json:"tool"`     // "" for the server's instructions
	What     string          `json:"what"`     // "changed", "new" or "removed"
	Withheld bool            `json:"withheld"` // it is not published until it is approved
	Was      json.RawMessage `json:"was"`      // the definition, or the instructions as a string; null where there is none
	Now      json.RawMessage `json:"now"`
}

// Approval is the body of POST /v1/pins/approve: one tool of a server, all of
// a server, or everything. It is answered with how many definitions were
// approved that were not before.
type Approval struct {
	Server string `json:"server,omitempty"`
	Tool   string `json:"tool,omitempty"`
	// Seen is the Fingerprint of the changes that somebody has looked at:
	// nothing is approved where others are due by now. "" approves what there is.
	Seen string `json:"seen,omitempty"`
}

// Concerned are the changes that an approval is about.
func (a Approval) Concerned(all []PinChange) []PinChange {
	concerned := []PinChange{}
	for _, c := range all {
		if (a.Server == "" || c.Server == a.Server) && (a.Tool == "" || c.Tool == a.Tool) {
			concerned = append(concerned, c)
		}
	}
	return concerned
}

// Fingerprint is the same for the same changes alone.
func Fingerprint(changes []PinChange) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(changes) // all of it can be encoded, and a hash takes everything
	return hex.EncodeToString(h.Sum(nil))
}

// Approved is the answer to an Approval.
type Approved struct {
	Count int `json:"count"`
}

func (a *API) pins(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, a.Pins()) }

// Pins is the answer of GET /v1/pins.
func (a *API) Pins() Pins {
	cfg := a.opts.Hub.Config()
	p := Pins{Mode: string(cfg.Pins), File: cfg.PinsFile, Changes: a.changes()}
	for _, problem := range a.opts.Hub.Problems() {
		if problem.About == "pins" {
			hide := a.hide()
			problem.Text, problem.Remedy = hide(problem.Text), hide(problem.Remedy)
			p.Problem = new(Problem(problem))
		}
	}
	return p
}

func (a *API) changes() []PinChange {
	all := []PinChange{}
	for _, c := range a.opts.Hub.PinChanges() {
		all = append(all, PinChange{
			Server: c.Server, Tool: c.Tool, What: c.What, Withheld: c.Withheld,
			Was: pinText(c.Tool, c.Was), Now: pinText(c.Tool, c.Now),
		})
	}
	return all
}

// pinText is a definition as it is, or instructions as a string.
func pinText(tool string, text []byte) json.RawMessage {
	if text == nil || tool != "" && !json.Valid(text) {
		return nil
	}
	if tool != "" {
		return text
	}
	quoted, _ := json.Marshal(string(text)) // a string always encodes
	return quoted
}

func (a *API) approve(w http.ResponseWriter, r *http.Request) {
	var req Approval
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxApproval))
	if err := dec.Decode(&req); err != nil || req.Tool != "" && req.Server == "" {
		a.fail(w, &fault.Fault{Kind: fault.Invalid, Op: "approve", Outcome: fault.NotSent, Err: errors.New(`the body must be {"server","tool"}`)})
		return
	}
	if _, ok := a.opts.Hub.Server(req.Server); req.Server != "" && !ok {
		a.fail(w, a.noServer("approve", req.Server))
		return
	}
	if req.Seen != "" && req.Seen != Fingerprint(req.Concerned(a.changes())) {
		a.fail(w, &fault.Fault{
			Kind: fault.Conflict, Op: "approve", Outcome: fault.NotSent, Remedy: "everline tools diff",
			Err: errors.New("nothing was approved: the definitions have changed again since they were shown"),
		})
		return
	}
	concerned := req.Concerned(a.changes())
	n, err := a.opts.Hub.Approve(r.Context(), req.Server, req.Tool)
	if err != nil {
		a.fail(w, err)
		return
	}
	a.Operated(r, req.Server, "approve", req.Tool)
	for _, c := range concerned {
		did(r.Context(), &audit.Record{
			Type: audit.TypeAdmin, Action: "approve", Target: &audit.Target{Server: c.Server, Tool: c.Tool},
			Change: &audit.Change{Was: hashOf(c.Was), Now: hashOf(c.Now)},
		})
	}
	answer(w, http.StatusOK, Approved{n})
}

// hashOf is the hash of a definition; "" where there is none.
func hashOf(text json.RawMessage) string {
	if text == nil {
		return ""
	}
	return audit.Hash(text)
}

// maxApproval bounds the body of an approval in bytes.
const maxApproval = 1 << 20

// tokens is what listing a tool costs a model, as Server.ToolTokens.
func tokens(l everline.Listed) int {
	if l.Hidden {
		return 0
	}
	return everline.Tokens(max(len(l.Item.Raw)+len(l.Exposed)-len(l.Item.Name), 0))
}
