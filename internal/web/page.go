package web

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"
)

//go:embed page.css
var style string

//go:embed page.html
var pageText string

// styleHash lets the page's own style through its content security policy.
var styleHash = func() string {
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}()

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"count": showCount, "duration": showDuration, "poisoned": poisoned, "read": showRead,
	"deref": func(b *bool) bool { return *b }, "mood": mood, "words": words,
}).Parse(pageText))

// pageData is what the page is made from.
type pageData struct {
	Style   template.CSS
	Version string
	At      string
	Queues  []queueView
}

func (h *handler) page(w http.ResponseWriter, _ *http.Request) {
	snap := h.Collector.Snapshot()
	data := pageData{
		Style:   template.CSS(style), // ours, from page.css
		Version: h.Version,
		At:      snap.At.UTC().Format(time.RFC3339),
		Queues:  viewOf(snap.Queues, h.Processors(), snap.At),
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, data); err != nil {
		h.Logger.Error("render page", "error", err)
		http.Error(w, "the page cannot be rendered; see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes()) // the client is gone: nobody is left to tell
}

// showCount writes a count, marked where there may be more.
func showCount(n *number) string {
	if n == nil {
		return "–"
	}
	text := strconv.FormatFloat(n.Value, 'f', 0, 64)
	if n.Floor || n.Saturated {
		text += "+"
	}
	return text
}

// showDuration writes seconds in the two units that matter.
func showDuration(n *number) string {
	if n == nil {
		return "–"
	}
	s := int64(n.Value)
	var text string
	switch {
	case s < 60:
		text = fmt.Sprintf("%d s", s)
	case s < 3600:
		text = fmt.Sprintf("%d m %d s", s/60, s%60)
	case s < 86400:
		text = fmt.Sprintf("%d h %d m", s/3600, s%3600/60)
	default:
		text = fmt.Sprintf("%d d %d h", s/86400, s%86400/3600)
	}
	if n.Floor {
		return text + "+"
	}
	return text
}

// showRead writes how long ago the queue was last read with success.
func showRead(v queueView) string {
	s := v.Main
	if s == nil {
		s = v.Poison
	}
	if s == nil || s.LastSuccessAgeSeconds == nil {
		return "never"
	}
	return showDuration(&number{Value: *s.LastSuccessAgeSeconds}) + " ago"
}

func poisoned(s *stateView) bool {
	return s != nil && s.ApproximateMessages != nil && s.ApproximateMessages.Value > 0
}

// mood is the style of a status.
func mood(status string) string {
	switch status {
	case "ok", "idle":
		return "good"
	case "falling_behind", "hidden", "paused":
		return "warn"
	case "unknown":
		return "dim"
	default:
		return "bad"
	}
}

// words writes a label's value for people.
func words(label string) string { return strings.ReplaceAll(label, "_", " ") }
