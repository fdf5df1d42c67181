package app

import (
	"errors"

	"github.com/qwatch/qwatch/internal/web"
)

// openTokens reads who may steer consumers, when that is configured.
func (s *service) openTokens() error {
	path := s.o.Config.Server.TokensFile
	if path == "" {
		return nil
	}
	var err error
	if s.tokens, err = web.OpenTokens(path, s.log.With("component", "web")); err != nil {
		return &ConfigError{errors.Join(placed(s.o.Config, "server.tokensFile", err)...)}
	}
	return nil
}
