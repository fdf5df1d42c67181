package web

import (
	"compress/gzip"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// compress answers in gzip where the client accepts it. It compresses for speed: an
// exposition is so repetitive that the slower levels gain little and cost a scrape more
// than everything else.
func compress(next http.Handler) http.Handler {
	pool := &sync.Pool{New: func() any {
		zw, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
		if err != nil {
			panic(err) // the level is a constant
		}
		return zw
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if !acceptsGzip(r.Header.Values("Accept-Encoding")) {
			next.ServeHTTP(w, r)
			return
		}
		zw := pool.Get().(*gzip.Writer)
		g := &gzipWriter{ResponseWriter: w, zw: zw}
		defer func() {
			g.close()
			pool.Put(zw)
		}()
		next.ServeHTTP(g, r)
	})
}

// gzipWriter compresses bodies of answers that have one.
type gzipWriter struct {
	http.ResponseWriter
	zw      *gzip.Writer
	decided bool
	on      bool
}

func (g *gzipWriter) WriteHeader(status int) {
	if !g.decided {
		g.decided = true
		h := g.Header()
		g.on = status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified && h.Get("Content-Encoding") == ""
		if g.on {
			h.Set("Content-Encoding", "gzip")
			h.Del("Content-Length")
			g.zw.Reset(g.ResponseWriter)
		}
	}
	g.ResponseWriter.WriteHeader(status)
}

func (g *gzipWriter) Write(p []byte) (int, error) {
	if !g.decided {
		if g.Header().Get("Content-Type") == "" {
			g.Header().Set("Content-Type", http.DetectContentType(p))
		}
		g.WriteHeader(http.StatusOK)
	}
	if g.on {
		return g.zw.Write(p)
	}
	return g.ResponseWriter.Write(p)
}

func (g *gzipWriter) close() {
	if g.on {
		_ = g.zw.Close() // the client is gone: nobody is left to tell
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (g *gzipWriter) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// acceptsGzip reads Accept-Encoding by RFC 9110: a quality of zero refuses.
func acceptsGzip(values []string) bool {
	star := false
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, params, err := mime.ParseMediaType("x/" + strings.TrimSpace(part))
		if err != nil {
			continue
		}
		q := 1.0
		if s, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(s, 64); err != nil {
				q = 0
			}
		}
		switch name {
		case "x/gzip", "x/x-gzip":
			return q > 0
		case "x/*":
			star = q > 0
		}
	}
	return star
}
