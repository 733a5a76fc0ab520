package entrance

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// refuse answers with a JSON-RPC error with id null.
func refuse(w http.ResponseWriter, status int, code int64, text string) {
	answer(w, status, code, text, nil)
}

func answer(w http.ResponseWriter, status int, code int64, text string, data []byte) {
	body := wire.AppendError(nil, nil, code, text, data)
	w.Header().Set("Content-Type", mcp.TypeJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone hears nothing
}

// later is refuse for who may come again after a time.
func later(w http.ResponseWriter, status int, text string, after time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(after.Seconds())))))
	data := wire.AppendInt([]byte(`{"outcome":"not_sent","retryAfterMs":`), max(1, after.Milliseconds()))
	answer(w, status, mcp.CodeOverloaded, text, append(data, '}'))
}

func tooMany(w http.ResponseWriter, after time.Duration) {
	later(w, http.StatusTooManyRequests, "Too many tokens from this address were refused", after)
}

// unavailable is no 401, for which clients would throw a good token away.
func unavailable(w http.ResponseWriter, after time.Duration) {
	later(w, http.StatusServiceUnavailable, "The issuer of the token cannot be asked now whether it is good", after)
}

// challenge asks for a token (RFC 6750 section 3; 2025-11-25 basic/authorization).
// Why one was refused is not said.
func (e *Entrance) challenge(w http.ResponseWriter, r *http.Request, rules *rules, problem string) {
	text := "Unauthorized: show a token in the Authorization header"
	if problem != "" {
		text = "Unauthorized: the token is not good here, or not any more"
	}
	w.Header().Set("WWW-Authenticate", rules.bearer(r, rules.scopes, problem))
	refuse(w, http.StatusUnauthorized, mcp.CodeInvalidRequest, text)
}

// insufficientScope is the error of a token that is good, and not for this.
const insufficientScope = "insufficient_scope"

// bearer is a challenge: where to get a token, with which scopes, and what is wrong
// with the one that was shown, if any.
func (r *rules) bearer(req *http.Request, scopes []string, problem string) string {
	var params []string
	if r.challenges {
		params = append(params, `resource_metadata="`+r.public+metadataPath+placeOf(req.URL.Path)+`"`)
		if len(scopes) > 0 {
			params = append(params, `scope="`+strings.Join(scopes, " ")+`"`)
		}
	}
	if problem != "" {
		params = append(params, `error="`+problem+`"`)
	}
	if len(params) == 0 {
		return "Bearer"
	}
	return "Bearer " + strings.Join(params, ", ")
}
