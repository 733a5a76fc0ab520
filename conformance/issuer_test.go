//go:build interop

package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// An issuer is the authorization server of conformance/issuer.
type issuer struct {
	url    string
	mu     sync.Mutex
	counts map[string]int
}

// startIssuer starts one whose access tokens are good for so many seconds.
func startIssuer(t *testing.T, seconds string) *issuer {
	t.Helper()
	i := &issuer{counts: map[string]int{}}
	cmd := exec.Command(bin(t, "node"), "issuer.mjs", seconds)
	cmd.Dir, cmd.Stderr = "issuer", io.Discard
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := readLines(t, scanner(out))
	var first struct{ URL string }
	if err := json.Unmarshal([]byte(said.next(time.Minute)), &first); err != nil || first.URL == "" {
		t.Fatalf("the issuer says not where it is: %v", err)
	}
	i.url = first.URL
	read := make(chan struct{})
	go func() { // ends with the issuer
		defer close(read)
		for text := range said.ch {
			var line struct{ Grant, Error, Why string }
			if json.Unmarshal([]byte(text), &line) != nil {
				continue
			}
			i.mu.Lock()
			i.counts[strings.TrimSpace(line.Grant+" "+line.Error)]++
			i.mu.Unlock()
			if line.Error != "" {
				t.Logf("issuer: %s: %s: %s", line.Grant, line.Error, line.Why)
			}
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-read; _ = cmd.Wait() })
	return i
}

func (i *issuer) count(what string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.counts[what]
}

// approve is alice, who signs in and consents.
func approve(page string) error { return approveAs("alice", page) }

// approveAs is a person who signs in and consents, through the pages of the issuer,
// until the browser is back where it came from.
func approveAs(who, page string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	browser := http.Client{Jar: jar, Timeout: time.Minute}
	defer browser.CloseIdleConnections()
	action, prompt := regexp.MustCompile(`action="([^"]+)"`), regexp.MustCompile(`name="prompt" value="([^"]+)"`)
	resp, err := browser.Get(page)
	for range 6 {
		if err != nil {
			return err
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		to, what := action.FindSubmatch(body), prompt.FindSubmatch(body)
		if to == nil || what == nil {
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("%s answers %d: %s", resp.Request.URL.Path, resp.StatusCode, body)
			}
			return nil
		}
		next, err := resp.Request.URL.Parse(string(to[1]))
		if err != nil {
			return err
		}
		resp, err = browser.PostForm(next.String(), url.Values{"prompt": {string(what[1])}, "login": {who}, "password": {"x"}})
		if err != nil {
			return err
		}
	}
	return errors.New("the pages of the issuer do not end")
}
