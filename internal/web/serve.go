package web

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"

	toolkit "github.com/prometheus/exporter-toolkit/web"
)

// CheckWebConfig returns what is wrong with a web configuration of the Prometheus exporter toolkit and
// with the certificates it names. The error names the file and the line, never what stands there.
func CheckWebConfig(path string) error {
	if err := toolkit.Validate(path); err != nil {
		if _, ok := errors.AsType[*fs.PathError](err); ok {
			return err // which names the file
		}
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil { // the parser's messages quote the file
			return fmt.Errorf("%s: line %s: it is not a web configuration of the Prometheus exporter toolkit", path, m[1])
		}
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Serve answers on l until the server is shut down, and returns http.ErrServerClosed then. With a web
// configuration it does so by TLS, and asks for the users' passwords, as that says: certificates, users
// and headers are read again for each connection and request. An empty path is plain HTTP.
func Serve(server *http.Server, l net.Listener, webConfig string, logger *slog.Logger) error {
	if webConfig == "" {
		return server.Serve(l)
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return toolkit.Serve(l, server, &toolkit.FlagConfig{WebConfigFile: &webConfig}, slog.New(coping{logger.Handler()}))
}

// coping passes on what is worse than information: that it listens was said already.
type coping struct{ slog.Handler }

func (h coping) Enabled(ctx context.Context, level slog.Level) bool {
	return level > slog.LevelInfo && h.Handler.Enabled(ctx, level)
}
