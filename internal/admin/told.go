package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/audit"
)

// Things that a command does itself to what is kept on disk, for the record. They are
// the last word of POST /v1/did/{action}.
const (
	DidTokenCreate = "token_create"
	DidTokenRotate = "token_rotate"
	DidTokenRevoke = "token_revoke"
	DidTrust       = "trust"
	DidTrustRevoke = "trust_revoke"
	DidRekey       = "rekey"
	DidLogin       = "login_ended"
	DidLogout      = "logout"
)

// Types of what commands do themselves.
var toldTypes = map[string]string{
	DidTokenCreate: audit.TypeAuth, DidTokenRotate: audit.TypeAuth, DidTokenRevoke: audit.TypeAuth, DidRekey: audit.TypeAuth, DidLogin: audit.TypeAuth,
	DidLogout: audit.TypeAuth, DidTrust: audit.TypeAdmin, DidTrustRevoke: audit.TypeAdmin,
}

// A Doing is the body of POST /v1/did/{action}: what a command has done to what is
// kept on disk, which it does itself. With ?dryRun=1 nothing is recorded; the answer
// says whether it may be done.
type Doing struct {
	Target *audit.Target `json:"target"`
	Change *audit.Change `json:"change"`
	Policy string        `json:"policy"` // of a token
	Error  *ErrorBody    `json:"error"`  // what it has failed with; null if it has not
}

// Failed is a Doing that has failed with err; nil for one that has not.
func (d Doing) Failed(err error) Doing {
	if err != nil {
		f := fault.From("", err)
		d.Error = &ErrorBody{Kind: f.Kind.String(), Message: f.Reason()}
	}
	return d
}

// Record is the record of the doing, by an actor.
func (d Doing) Record(action string, by audit.Actor) *audit.Record {
	r := &audit.Record{Type: toldTypes[action], Action: action, Outcome: audit.OK, Actor: by, Target: d.Target, Change: d.Change, Policy: d.Policy}
	if d.Error != nil {
		r.Outcome, r.Kind, r.Cause = audit.Failed, d.Error.Kind, d.Error.Message
	}
	return r
}

// told takes what a command has done itself.
func (a *API) told(w http.ResponseWriter, r *http.Request) {
	action := r.PathValue("action")
	if toldTypes[action] == "" {
		a.fail(w, fault.New(fault.NotFound, "record", "nothing is called "+action))
		return
	}
	var d Doing
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxDoing)).Decode(&d); err != nil {
		a.fail(w, &fault.Fault{Kind: fault.Invalid, Op: "record", Outcome: fault.NotSent, Err: errors.New("the body cannot be read")})
		return
	}
	if dry := r.URL.Query().Get("dryRun"); dry == "1" {
		ahead(r.Context())
	} else {
		did(r.Context(), d.Record(action, audit.Actor{}))
	}
	answer(w, http.StatusOK, struct{}{})
}

// maxDoing bounds what a command tells, in bytes.
const maxDoing = 64 << 10

// Did is POST /v1/did/{action}.
func (c *Client) Did(ctx context.Context, action string, d Doing) error {
	return c.post(ctx, "/v1/did/"+action, d, &struct{}{})
}

// MayDo is Did with ?dryRun=1.
func (c *Client) MayDo(ctx context.Context, action string) error {
	return c.post(ctx, "/v1/did/"+action+"?dryRun=1", Doing{}, &struct{}{})
}
