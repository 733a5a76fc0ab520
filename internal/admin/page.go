package admin

import (
	"context"
	"net/http"
)

// A Page is the web page, as far as the command line opens it.
type Page interface {
	// Link is where it opens with the right to act, once and within a minute.
	Link() (string, error)
	// Revoke takes that right from every page that has it.
	Revoke() error
}

// PageLink is the answer of POST /v1/page/code.
type PageLink struct {
	URL string `json:"url"` // opens the page with the right to act, once and within a minute
}

func (a *API) pageCode(w http.ResponseWriter, _ *http.Request) {
	link, err := a.opts.Page.Link()
	if err != nil {
		a.fail(w, err)
		return
	}
	answer(w, http.StatusOK, PageLink{link})
}

func (a *API) pageRevoke(w http.ResponseWriter, _ *http.Request) {
	if err := a.opts.Page.Revoke(); err != nil {
		a.fail(w, err)
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

// PageLink is POST /v1/page/code.
func (c *Client) PageLink(ctx context.Context) (PageLink, error) {
	var l PageLink
	body, err := c.do(ctx, http.MethodPost, "/v1/page/code", nil)
	if err != nil {
		return l, err
	}
	defer body.Close()
	return l, decode(body, &l)
}

// RevokePage is POST /v1/page/revoke.
func (c *Client) RevokePage(ctx context.Context) error {
	body, err := c.do(ctx, http.MethodPost, "/v1/page/revoke", nil)
	if err != nil {
		return err
	}
	return body.Close()
}
