package web

import (
	"os"

	"go.yaml.in/yaml/v3"
)

// UsesTLS says whether a web configuration turns on TLS. One that cannot be read, and an empty path, do not.
func UsesTLS(path string) bool {
	if path == "" {
		return false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	var c struct {
		TLS map[string]any `yaml:"tls_server_config"`
	}
	return yaml.Unmarshal(text, &c) == nil && len(c.TLS) > 0
}
