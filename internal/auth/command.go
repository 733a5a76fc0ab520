package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	commandLimit = 10 * time.Second
	commandMax   = 64 << 10
)

// readFile reads a file that the configuration names, of a bounded size.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, commandMax))
}

// runCommand has a command print a token. It is not stored: the command is
// asked again.
func (s *source) runCommand(ctx context.Context, k key) (*record, error) {
	tok, err := s.output(ctx)
	if err != nil {
		return nil, err
	}
	rec := &record{Key: k, Serial: s.m.serial.Add(1)}
	rec.take(tok)
	if rec.Expiry.IsZero() && s.spec.RefreshAfter > 0 {
		rec.Expiry = rec.Issued.Add(s.spec.RefreshAfter)
	}
	return rec, nil
}

// output runs the command. What it prints is in no error: it is a secret.
func (s *source) output(ctx context.Context) (*token, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.spec.Command, s.spec.Args...)
	cmd.WaitDelay = time.Second // for what it started and did not end
	out := &capped{}
	cmd.Stdout = out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, &passing{text: "the command that prints the token does not end"}
	case errors.As(err, &exit):
		return nil, &passing{text: "the command that prints the token fails: " + exit.String()}
	case err != nil:
		return nil, fmt.Errorf("the command that prints the token cannot be run: %w", err)
	}
	tok, err := parseOutput(out.kept.Bytes())
	if err == nil {
		s.m.secrets.learn(tok.access)
	}
	return tok, err
}

// parseOutput reads a token, or JSON with one.
func parseOutput(out []byte) (*token, error) {
	text := strings.TrimSpace(string(out))
	if !strings.HasPrefix(text, "{") {
		text = strings.TrimPrefix(strings.TrimPrefix(text, "Bearer "), "bearer ")
		if !headerSafe(text) {
			return nil, &passing{text: "the command prints no token, or more than one line"}
		}
		return &token{access: text, expiry: claimsOf(text).expiry()}, nil
	}
	var a struct {
		tokenAnswer
		Header string `json:"Authorization"` // of a program that prints headers
	}
	err := json.Unmarshal([]byte(text), &a)
	if kind, token, ok := strings.Cut(a.Header, " "); ok && a.Access == "" && strings.EqualFold(kind, "Bearer") {
		a.Access = token
	}
	if err != nil || !headerSafe(a.Access) {
		return nil, &passing{text: `the command prints JSON without an "access_token" or an "Authorization" with a bearer token`}
	}
	return &token{access: a.Access, expiry: a.expiry(time.Now().Round(0)), scopes: a.Scope.list(), subject: claimsOf(a.Access).Subject}, nil
}

// capped keeps the beginning of what is written to it.
type capped struct{ kept bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	if room := commandMax - c.kept.Len(); room > 0 {
		c.kept.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
