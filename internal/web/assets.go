package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
)

//go:embed page/page.css page/page.js page/replay.js page/triage.js page/icon.svg page/*.html
var files embed.FS

// asset is a file of the page, ready to be sent.
type asset struct {
	name, mime  string
	text, short []byte // short is compressed
	tag         string
}

// readAssets returns the files that the page consists of, and a name for all of them together that is
// another one whenever one of them changes.
func readAssets() (all []asset, build string) {
	sum := sha256.New()
	for _, a := range []asset{
		{name: "page.css", mime: "text/css; charset=utf-8"},
		{name: "page.js", mime: "text/javascript; charset=utf-8"},
		{name: "replay.js", mime: "text/javascript; charset=utf-8"},
		{name: "triage.js", mime: "text/javascript; charset=utf-8"},
		{name: "icon.svg", mime: "image/svg+xml"},
	} {
		text, err := files.ReadFile("page/" + a.name)
		if err != nil {
			panic(err) // it is embedded
		}
		var b bytes.Buffer
		zw := gzip.NewWriter(&b)
		_, _ = zw.Write(text) // into memory
		_ = zw.Close()
		own := sha256.Sum256(text)
		a.text, a.short, a.tag = text, b.Bytes(), `"`+hex.EncodeToString(own[:8])+`"`
		_, _ = sum.Write(own[:]) // a hash takes everything
		all = append(all, a)
	}
	return all, hex.EncodeToString(sum.Sum(nil)[:6])
}

// ServeHTTP implements http.Handler. The page names the file with its build, so that a browser may keep
// it for good; without, it asks again.
func (a asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.mime)
	h.Set("ETag", a.tag)
	h.Set("Cache-Control", "no-cache")
	if r.URL.RawQuery != "" {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Add("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == a.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	text := a.text
	if acceptsGzip(r.Header.Values("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		text = a.short
	}
	_, _ = w.Write(text) // the client is gone: nobody is left to tell
}
