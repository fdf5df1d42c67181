package app

import (
	"fmt"

	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/processor"
)

// openTokens reads who may steer consumers, when that is configured.
func (s *service) openTokens() error {
	path := s.o.Config.Server.TokensFile
	if path == "" {
		return nil
	}
	var err error
	if s.tokens, err = web.OpenTokens(path, s.log.With("component", "web")); err != nil {
		return &ConfigError{fmt.Errorf("%s: %w", s.o.Config.At("server.tokensFile"), err)}
	}
	return nil
}

// steering finds the processor of a queue for the API.
func (s *service) steering() func(account, queue string) web.Consumer {
	byName := make(map[string]*processor.Processor, len(s.processors))
	for _, p := range s.processors {
		st := p.Status()
		byName[fullName(st.Account, st.Queue)] = p
	}
	return func(account, queue string) web.Consumer {
		if p := byName[fullName(account, queue)]; p != nil {
			return p
		}
		return nil
	}
}
