package app

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/scaler"
	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/queue"
)

// ConfigError is a fault of the configuration that only building what it describes can
// find. Its text has one line for each fault, with file, line and path.
type ConfigError struct{ err error }

// Error implements error.
func (e *ConfigError) Error() string { return e.err.Error() }

// Unwrap returns the faults.
func (e *ConfigError) Unwrap() error { return e.err }

// placed gives each fault joined in err its place in the file.
func placed(cfg *config.Config, path string, err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range joined.Unwrap() {
			errs = append(errs, placed(cfg, path, e)...)
		}
		return errs
	}
	if field, ok := errors.AsType[*queue.FieldError](err); ok {
		path, err = path+"."+field.Field, field.Err
	} else if setting, ok := errors.AsType[*settingError](err); ok {
		path, err = path+"."+setting.setting, setting.err
	}
	return []error{config.Fault{Pos: cfg.Place(path), Text: err.Error(), Err: err}}
}

// files looks into the files that the server's section names. The error is nil or a *ConfigError with every fault.
func files(cfg *config.Config) error {
	var errs []error
	look := func(path string, err error) {
		if err != nil {
			errs = append(errs, placed(cfg, path, err)...)
		}
	}
	s := cfg.Server
	if s.WebConfigFile != "" {
		look("server.webConfigFile", web.CheckWebConfig(s.WebConfigFile))
	}
	if s.TokensFile != "" {
		_, err := web.OpenTokens(s.TokensFile, nil)
		look("server.tokensFile", err)
	}
	if t := s.GRPCTLS; t != nil && s.GRPC != config.Off {
		_, err := scaler.TLSFiles{CertFile: t.CertFile, KeyFile: t.KeyFile, ClientCAFile: t.ClientCAFile}.Config()
		look("server.grpcTLS", err)
	}
	if len(errs) == 0 {
		return nil
	}
	return &ConfigError{errors.Join(errs...)}
}

// buildable returns every fault of a configuration that files, sign-ins and queues have.
func buildable(cfg *config.Config) error {
	fleet, err := OpenFleet(cfg, FleetOptions{})
	if err == nil {
		fleet.Close()
	}
	all := slices.Concat(faultsOf(files(cfg)), faultsOf(err))
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	return &ConfigError{errors.Join(all...)}
}

// lineOf returns the line of a fault.
func lineOf(err error) int {
	f, _ := errors.AsType[config.Fault](err)
	return f.Line
}

// Explain adds to the faults that config.Load or config.Parse found those that only building what the file describes
// can find, as far as it describes anything: somebody who mends a file sees all of them at once. Other errors
// stay as they are.
func Explain(err error) error {
	found, ok := errors.AsType[*config.Errors](err)
	if !ok || found.Partial() == nil {
		return err
	}
	all := slices.Clone(found.Faults)
	for _, e := range faultsOf(buildable(found.Partial())) {
		f, ok := errors.AsType[config.Fault](e)
		if !ok || slices.ContainsFunc(found.Faults, func(known config.Fault) bool { return follows(f.Path, known.Path) }) {
			continue
		}
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b config.Fault) int { return cmp.Compare(a.Line, b.Line) })
	return &config.Errors{Faults: all}
}

// follows says whether a fault at a path comes of the one at another path: that is the same, lies in it, or is around it,
// as an account is around its sign-in.
func follows(path, known string) bool {
	rest, in := strings.CutPrefix(path, known)
	_, around := strings.CutPrefix(known, path)
	switch {
	case path == known:
		return true
	case in && strings.HasPrefix(rest, ".queues["): // a queue has its own faults
		return false
	case in:
		return rest[0] == '.' || rest[0] == '['
	case around:
		return known[len(path)] == '.' || known[len(path)] == '['
	default:
		return false
	}
}

// faultsOf returns each fault joined in an error.
func faultsOf(err error) []error {
	if err == nil {
		return nil
	}
	if built, ok := err.(*ConfigError); ok {
		return faultsOf(built.err)
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, faultsOf(e)...)
	}
	return all
}

// texts returns the faults joined in an error, as text.
func texts(err error) []string {
	var all []string
	for _, e := range faultsOf(err) {
		all = append(all, e.Error())
	}
	return all
}

// fault is one fault of the configuration at a place.
func fault(at config.Pos, err error) error {
	return config.Fault{Pos: at, Text: err.Error(), Err: err}
}
