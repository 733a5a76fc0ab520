// Driver is the program that the official suite's client side runs: it reaches
// the suite's server through a Hub, as a Go program that embeds everline does,
// and performs what a scenario asks for. It is test code, and no command.
//
// The server's URL is the last argument, the scenario's name is in
// MCP_CONFORMANCE_SCENARIO, its context, as JSON, in MCP_CONFORMANCE_CONTEXT.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
)

const (
	limit = 30 * time.Second // of a whole scenario
	// loginLimit is that of a login: where a server goes on refusing, somebody has
	// to give up before the suite does.
	loginLimit = 15 * time.Second
)

func main() {
	scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	within := limit
	if strings.HasPrefix(scenario, "auth/") {
		within = loginLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := run(ctx, os.Args[len(os.Args)-1], scenario, os.Getenv("MCP_CONFORMANCE_CONTEXT")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A client is the hub with the one server "s".
type client struct {
	hub *everline.Hub
	ctx context.Context
}

func run(ctx context.Context, url, scenario, scenarioContext string) error {
	s := config.NewServer("s")
	s.Transport, s.URL, s.Overlap = "auto", url, true
	remove, err := credential(&s, scenario, scenarioContext)
	if err != nil {
		return err
	}
	defer remove()
	cfg := config.New()
	cfg.Servers = []config.Server{s}
	hub, err := everline.Open(ctx, cfg, everline.Options{Name: "everline-conformance", Browser: browse})
	if err != nil {
		return err
	}
	c := &client{hub: hub, ctx: ctx}
	return errors.Join(c.perform(scenario, scenarioContext), hub.Close(ctx))
}

// browse is a browser whose user approves of everything.
func browse(ctx context.Context, page string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// credential configures what an auth scenario gives; remove is to be called at
// the end.
func credential(s *config.Server, scenario, scenarioContext string) (remove func(), err error) {
	remove = func() {}
	if !strings.HasPrefix(scenario, "auth/") {
		return remove, nil
	}
	s.Auth.CallbackPort = ownPort()
	s.Auth.OldEndpoints = strings.HasPrefix(scenario, "auth/2025-03-26-") // these servers agree to nothing before a login
	s.Auth.ClientIDURL = "https://conformance-test.local/client-metadata.json"
	if scenarioContext == "" {
		return remove, nil
	}
	var given struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		Issuer       string `json:"issuer"`
		PrivateKey   string `json:"private_key_pem"`
		SigningAlg   string `json:"signing_algorithm"`
		IDPClientID  string `json:"idp_client_id"`
		IDPIDToken   string `json:"idp_id_token"`
		IDPIssuer    string `json:"idp_issuer"`
		IDPTokenURL  string `json:"idp_token_endpoint"`
		JWT          string `json:"valid_jwt"`
	}
	if err := json.Unmarshal([]byte(scenarioContext), &given); err != nil {
		return remove, err
	}
	a := &s.Auth
	a.ClientID, a.ClientSecret, a.Issuer, a.SigningAlg = given.ClientID, given.ClientSecret, given.Issuer, given.SigningAlg
	a.IDPClientID, a.IDPIssuer, a.IDPTokenURL = given.IDPClientID, given.IDPIssuer, given.IDPTokenURL
	switch {
	case strings.HasPrefix(scenario, "auth/client-credentials-"):
		a.Type = config.AuthClientCredentials
	case given.IDPIDToken != "":
		a.Type = config.AuthEnterprise
		return kept(&a.AssertionFile, given.IDPIDToken)
	case given.JWT != "":
		a.Type = config.AuthWorkload
		return kept(&a.AssertionFile, given.JWT)
	}
	if given.PrivateKey == "" {
		return remove, nil
	}
	return kept(&a.PrivateKeyFile, given.PrivateKey)
}

// kept writes a text to a file, whose name it sets.
func kept(name *string, text string) (remove func(), err error) {
	file, err := os.CreateTemp("", "everline-conformance-*")
	if err != nil {
		return func() {}, err
	}
	*name = file.Name()
	_, err = file.WriteString(text)
	return func() { _ = os.Remove(file.Name()) }, errors.Join(err, file.Close())
}

// ownPort is a port for this process alone, of the scenarios that run side by
// side. It is below those that the system gives to outgoing connections: one of
// theirs that was free a moment ago is taken by the time the login listens.
func ownPort() int { return 10000 + os.Getpid()%20000 }

// perform waits for the server and does what the scenario observes. What
// needs no calls is over once the catalog is there.
func (c *client) perform(scenario, scenarioContext string) error {
	st, err := c.hub.Await(c.ctx, "s", 0)
	if err != nil {
		return err
	}
	if st.State != "connected" {
		return fmt.Errorf("the server is %s: %w", st.State, st.Cause)
	}
	if strings.HasPrefix(scenario, "auth/") {
		return c.allTools(`{}`)
	}
	switch scenario {
	case "tools_call":
		return c.call("add_numbers", `{"a":5,"b":3}`)
	case "elicitation-sep1034-client-defaults":
		_, err := c.hub.Call(c.ctx, &everline.Call{
			Method: "tools/call", Name: "test_client_elicitation_defaults", Client: everline.NewClient(fillIn, nil),
			Params: []byte(`{"name":"test_client_elicitation_defaults","arguments":{}}`),
		})
		return err
	case "sse-retry":
		return c.call("test_reconnection", `{}`)
	case "sep-2322-client-request-state":
		return c.rounds()
	case "http-standard-headers":
		return c.oneOfEach()
	case "http-custom-headers":
		return c.given(scenarioContext)
	case "http-invalid-tool-headers":
		return c.allTools(`{"region":"us-west1"}`)
	case "json-schema-2020-12-preservation":
		return c.echoSchema()
	default:
		return nil
	}
}

// call is one tool call; what the server says to it is its own business.
func (c *client) call(tool, arguments string) error {
	_, err := c.request("tools/call", tool, fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	return err
}

func (c *client) request(method, name, params string) ([]byte, error) {
	return c.hub.Call(c.ctx, &everline.Call{Method: method, Name: name, Params: []byte(params)})
}

// fillIn accepts every form with its defaults.
func fillIn(_ context.Context, method string, params []byte) ([]byte, error) {
	if method != "elicitation/create" {
		return nil, fault.New(fault.Unsupported, method, "this client only fills in forms")
	}
	var asked struct {
		RequestedSchema struct {
			Properties map[string]struct{ Default json.RawMessage }
		}
	}
	if err := json.Unmarshal(params, &asked); err != nil {
		return nil, fault.New(fault.Invalid, method, err.Error())
	}
	content := map[string]json.RawMessage{}
	for name, property := range asked.RequestedSchema.Properties {
		if property.Default != nil {
			content[name] = property.Default
		}
	}
	return json.Marshal(map[string]any{"action": "accept", "content": content})
}

// listed returns the names, or URIs, of a kind in the order of the list.
func (c *client) listed(kind everline.Kind) ([]string, error) {
	var items []struct{ Name, URI string }
	if err := json.Unmarshal(c.hub.Catalog().Array(kind), &items); err != nil {
		return nil, err
	}
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = item.Name
		if kind == everline.Resources {
			names[i] = item.URI
		}
	}
	return names, nil
}

func (c *client) allTools(arguments string) error {
	names, err := c.listed(everline.Tools)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.call(name, arguments); err != nil {
			fmt.Fprintln(os.Stderr, err) // some are meant to be refused
		}
	}
	return nil
}

// oneOfEach makes one request of each kind, so that its headers are seen.
func (c *client) oneOfEach() error {
	for _, each := range []struct {
		kind           everline.Kind
		method, params string
	}{
		{everline.Tools, "tools/call", `{"name":%q,"arguments":{}}`},
		{everline.Resources, "resources/read", `{"uri":%q}`},
		{everline.Prompts, "prompts/get", `{"name":%q,"arguments":{}}`},
	} {
		names, err := c.listed(each.kind)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			continue
		}
		if _, err := c.request(each.method, names[0], fmt.Sprintf(each.params, names[0])); err != nil {
			return err
		}
	}
	return nil
}

// given makes the calls that the context names.
func (c *client) given(scenarioContext string) error {
	var given struct {
		ToolCalls []struct {
			Name      string
			Arguments json.RawMessage
		} `json:"toolCalls"`
	}
	if err := json.Unmarshal([]byte(scenarioContext), &given); err != nil {
		return err
	}
	for _, one := range given.ToolCalls {
		arguments := string(one.Arguments)
		if arguments == "" {
			arguments = "{}"
		}
		if err := c.call(one.Name, arguments); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return nil
}

// echoSchema sends a tool's schema back as it was listed.
func (c *client) echoSchema() error {
	var tools []struct {
		Name        string
		InputSchema json.RawMessage
	}
	if err := json.Unmarshal(c.hub.Catalog().Array(everline.Tools), &tools); err != nil {
		return err
	}
	const focal = "json_schema_2020_12_tool"
	for _, tool := range tools {
		if tool.Name == focal {
			return c.call("json_schema_echo", `{"schema":`+string(tool.InputSchema)+`}`)
		}
	}
	return errors.New("the server does not list " + focal)
}

// rounds plays the client's part of multi-round tool calls: what the server
// asks for is accepted, and its state goes back as it came.
func (c *client) rounds() error {
	names, err := c.listed(everline.Tools)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := c.roundsOf(name); err != nil {
			fmt.Fprintln(os.Stderr, err) // one of them is meant to be refused
		}
	}
	return nil
}

func (c *client) roundsOf(tool string) error {
	params := map[string]any{
		"name": tool, "arguments": map[string]any{},
		"_meta": map[string]any{"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{}}},
	}
	for range 5 {
		text, err := json.Marshal(params)
		if err != nil {
			return err
		}
		raw, err := c.request("tools/call", tool, string(text))
		if err != nil {
			return err
		}
		var result struct {
			ResultType    string
			InputRequests map[string]json.RawMessage
			RequestState  json.RawMessage
		}
		if err := json.Unmarshal(raw, &result); err != nil {
			return err
		}
		if result.ResultType != "input_required" {
			return nil
		}
		answers := map[string]any{}
		for id := range result.InputRequests {
			answers[id] = map[string]any{"action": "accept", "content": map[string]any{"confirmed": true}}
		}
		params["inputResponses"] = answers
		delete(params, "requestState")
		if result.RequestState != nil {
			params["requestState"] = result.RequestState
		}
	}
	return errors.New("the server asks again and again")
}
