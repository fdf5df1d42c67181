package main

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"
)

// logFlags say what is logged and how.
type logFlags struct{ level, format string }

// levelOff logs nothing.
const levelOff = "off"

func (l *logFlags) flags(cmd *cobra.Command, level string) {
	cmd.Flags().StringVar(&l.level, "log-level", level, "least `level` to log: debug, info, warn, error or off")
	cmd.Flags().StringVar(&l.format, "log-format", "text", "log `format`: text or json")
}

func (l *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	switch l.level {
	case levelOff:
		return slog.New(slog.DiscardHandler), nil
	case "debug", "info", "warn", "error":
		if err := level.UnmarshalText([]byte(l.level)); err != nil {
			return nil, usagef("--log-level %q: %w", l.level, err)
		}
	default:
		return nil, usagef("--log-level %q must be debug, info, warn, error or off", l.level)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	default:
		return nil, usagef("--log-format %q must be text or json", l.format)
	}
}
