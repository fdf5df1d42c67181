package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/qwatch/qwatch/internal/plainjson"
	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
)

// commandOf reads the parameters of a GET.
func commandOf(v url.Values) (triage.Command, error) {
	c := triage.Command{Reason: v.Get("reason"), IDs: v["id"]}
	var errs []error
	for _, k := range v["category"] {
		c.Categories = append(c.Categories, poison.Category(k))
	}
	truth := func(name string, into *bool) {
		switch s := v.Get(name); s {
		case "", "0", "false":
		case "1", "true":
			*into = true
		default:
			errs = append(errs, fmt.Errorf("%s is not true or false", name))
		}
	}
	truth("all", &c.All)
	truth("body", &c.Body)
	truth("history", &c.History)
	for name, into := range map[string]*triage.Duration{"olderThan": &c.OlderThan, "newerThan": &c.NewerThan, "lease": &c.Lease} {
		if s := v.Get(name); s != "" {
			if err := into.UnmarshalText([]byte(s)); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
	}
	if s := v.Get("limit"); s != "" {
		var err error
		if c.Limit, err = strconv.Atoi(s); err != nil {
			errs = append(errs, errors.New("limit is not a whole number"))
		}
	}
	return c, errors.Join(errs...)
}

// readCommand reads the body of a POST: a command as a JSON object. Nothing and null are none, because they
// would be about everything, and so would be a field that is null, or a bound that is 0. What readers of JSON read in
// different ways is no command either.
func readCommand(w http.ResponseWriter, r *http.Request) (triage.Command, error) {
	var c triage.Command
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTriageBody))
	if err != nil {
		return c, errors.New("the body cannot be read, or is too large")
	}
	var fields map[string]json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&fields); err != nil || fields == nil {
		return c, errors.New("the body is not a command: send a JSON object, {} at least")
	}
	if err := plainjson.Unambiguous(b); err != nil {
		return c, fmt.Errorf("the body is not a command: %w", err)
	}
	for name, value := range fields {
		if string(value) == "null" {
			return c, fmt.Errorf("the body is not a command: %.40q is null; leave it out", name)
		}
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, errors.New("the body is not a command: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return c, errors.New("the body is more than one command")
	}
	for name, zero := range map[string]bool{"rate": c.Rate == 0, "limit": c.Limit == 0, "canary": c.Canary == 0} {
		for given, value := range fields {
			if zero && strings.EqualFold(name, given) {
				return c, fmt.Errorf("the body is not a command: %s %.40s is 0, which would be no bound; leave it out", name, value)
			}
		}
	}
	return c, nil
}

// maxTriageBody holds triage.MaxIDs ids.
const maxTriageBody = 1 << 20
