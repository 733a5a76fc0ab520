package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"strings"
)

// dist is made of ui by scripts/ui.sh build, and committed.
//
//go:embed dist/index.html dist/app.js dist/app.css dist/icon.svg
var dist embed.FS

// assets are the files of the page. Scripts and styles have a name that changes
// with what is in them, and so never need to be asked for again.
type assets struct {
	index []byte
	tag   string // of the index, and so of all
	named map[string]asset
}

type asset struct {
	kind string
	text []byte
}

func readAssets() *assets {
	a := &assets{index: read("index.html"), named: map[string]asset{}}
	for name, kind := range map[string]string{
		"app.js": "text/javascript; charset=utf-8", "app.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		text := read(name)
		stem, ext, _ := strings.Cut(name, ".")
		hashed := stem + "." + hash(text) + "." + ext
		a.named[hashed] = asset{kind, text}
		a.index = bytes.ReplaceAll(a.index, []byte(name), []byte(hashed))
	}
	a.tag = hash(a.index)
	return a
}

func read(name string) []byte {
	text, err := dist.ReadFile("dist/" + name)
	if err != nil {
		panic("bug: " + name + " is not embedded") // the directive names it
	}
	return text
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// serve serves the index, or a file by its name.
func (a *assets) serve(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "" {
		tag := `"` + a.tag + `"`
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(a.index) // the error is the browser's going away
		return
	}
	f, ok := a.named[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Type", f.kind)
	_, _ = w.Write(f.text) // likewise
}
