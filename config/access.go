package config

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/tree"
)

// Access says who may come in; what they may do there is in Policies. Without it the endpoint serves whoever
// Clients lets in.
type Access struct {
	Demanded bool // there is an "auth": nobody comes in without an identity

	Tokens  bool     // of everline's own, which "everline token" makes
	Issuers []Issuer // whose tokens are taken, in the order of the file
	MTLS    CertName // what in a client's certificate names it; "": certificates name nobody
}

// CertName says what in a certificate is the name of its holder.
type CertName string

const (
	CertURI CertName = "uri" // its first URI
	CertCN  CertName = "cn"  // its common name
)

// An Issuer is an OAuth authorization server or OpenID provider whose tokens are
// taken.
type Issuer struct {
	Issuer      string              // exactly as its tokens have it
	Audience    []string            // of which a token must name one; none: the address of the endpoint, see Config.PublicURL
	Algs        []string            // of signatures; RS256, ES256
	Subject     string              // the claim that names the client; "sub"
	ScopesClaim string              // the claim of the scopes, or several names parted by "|", of which the first that is there counts; "": scope, else scp
	Require     map[string][]string // claims that a token must have, each with one of the values
	ClockSkew   time.Duration       // by how much its clock and ours may differ; 30 s
	JWKSURI     string              // where its keys are; "": where its metadata says
}

// TLS says with what the endpoint is encrypted; the zero value: not at all.
type TLS struct {
	CertFile, KeyFile string
	ClientCAFile      string // whose certificates clients may show; "" for none
}

func mtls(to *Access) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		to.MTLS = CertURI
		return r.strictObject(n, `"mtls"`, mtlsKeys(to))
	}
}

func mtlsKeys(to *Access) []key { return []key{{"subject", word(&to.MTLS, CertURI, CertCN)}} }

func tlsKeys(to *TLS) []key {
	return []key{{"certFile", path(&to.CertFile)}, {"keyFile", path(&to.KeyFile)}, {"clientCAFile", path(&to.ClientCAFile)}}
}

func tlsFiles(to *TLS) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		err := r.strictObject(n, `"tls"`, tlsKeys(to))
		if err == nil && (to.CertFile == "" || to.KeyFile == "") {
			err = tree.Invalid(r.file, n.Pos, `name both "certFile" and "keyFile"`, "a certificate is of no use without its key")
		}
		return err
	}
}

// address takes the URL of a place that is reached by HTTP.
func address(to *string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.String {
			return r.wrongKind(n, "a string")
		}
		u, err := url.Parse(n.Text)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return tree.Invalid(r.file, n.Pos, "write it like https://gw.example.com", "%q is not the address of a place on the web", n.Text)
		}
		*to = n.Text
		return nil
	}
}

// baseURL is address without a slash at the end.
func baseURL(to *string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		err := address(to)(r, n)
		*to = strings.TrimRight(*to, "/")
		return err
	}
}

// NewIssuer returns an issuer with every default.
func NewIssuer(issuer string) Issuer {
	return Issuer{Issuer: issuer, Algs: []string{"RS256", "ES256"}, Subject: "sub", ClockSkew: 30 * time.Second}
}

// signatures are the algorithms by which an issuer, and nobody who only knows its
// public keys, can sign.
var signatures = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

func issuers(to *[]Issuer) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.List {
			return r.wrongKind(n, "a list of issuers")
		}
		for _, e := range n.List {
			i := NewIssuer("")
			if err := r.strictObject(e, "an issuer", issuerKeys(&i)); err != nil {
				return err
			}
			for _, alg := range i.Algs {
				if !slices.Contains(signatures, alg) {
					return tree.Invalid(r.file, e.Pos, "write some of "+strings.Join(signatures, ", "), "%q is no signature that only the issuer can make", alg)
				}
			}
			if i.Issuer == "" || len(i.Algs) == 0 || slices.ContainsFunc(*to, func(o Issuer) bool { return o.Issuer == i.Issuer }) {
				return tree.Invalid(r.file, e.Pos, `give each one an "issuer" of its own, and at least one of "algs"`, "this issuer cannot be told from others, or can sign nothing")
			}
			*to = append(*to, i)
		}
		return nil
	}
}

func issuerKeys(i *Issuer) []key {
	return []key{
		{"issuer", address(&i.Issuer)},
		{"audience", texts(&i.Audience)},
		{"algs", texts(&i.Algs)},
		{"subject", text(&i.Subject)},
		{"scopesClaim", text(&i.ScopesClaim)},
		{"require", textLists(&i.Require)},
		{"clockSkew", duration(&i.ClockSkew, 0)},
		{"jwksUri", address(&i.JWKSURI)},
	}
}

// textLists takes an object of lists of strings.
func textLists(to *map[string][]string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.Object {
			return r.wrongKind(n, "an object of lists of strings")
		}
		m := make(map[string][]string, len(n.Fields))
		for _, f := range n.Fields {
			var values []string
			if err := texts(&values)(r, f.Value); err != nil {
				return err
			}
			if _, known := m[f.Name]; !known {
				m[f.Name] = values
			}
		}
		*to = m
		return nil
	}
}
