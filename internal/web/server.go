package web

import (
	"log"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Limits of the HTTP servers. What they answer is small and ready, so nothing that is
// slower than this is a healthy client.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// NewServer returns a server for h with timeouts and limits set. What the server
// itself has to say goes to logger as warnings; nil discards.
func NewServer(h http.Handler, logger *slog.Logger) *http.Server {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(logWriter{logger}, "", 0),
	}
}

// logWriter carries net/http's messages into slog.
type logWriter struct{ logger *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.logger.Warn("http server", "error", strings.TrimSpace(string(p)))
	return len(p), nil
}
