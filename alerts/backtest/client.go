package backtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxAnswer bounds an answer: one that is larger asks too much at once.
const maxAnswer = 64 << 20

// client asks a Prometheus.
type client struct {
	base    *url.URL
	token   func() (string, error)
	timeout time.Duration
	http    *http.Client
}

func newClient(o Options) (*client, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		return nil, errors.New("the URL of Prometheus is not one")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("the URL of Prometheus %q is not one of http or https", u.Redacted())
	}
	return &client{
		base: u.JoinPath("api", "v1", "query_range"), token: o.Token, timeout: o.Timeout,
		// A redirect would carry the token to another host, and lose the query's form.
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// matrix is a series of a range query: when it had a value.
type matrix struct {
	labels map[string]string
	at     map[int64]bool // Unix milliseconds
}

func (m matrix) has(at time.Time) bool { return m.at[at.UnixMilli()] }

type answer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		ResultType string `json:"resultType"`
		Result     []struct {
			Metric map[string]string    `json:"metric"`
			Values [][2]json.RawMessage `json:"values"`
		} `json:"result"`
	} `json:"data"`
}

// queryRange evaluates an expression step by step.
func (c *client) queryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]matrix, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	form := url.Values{
		"query": {expr}, "start": {seconds(from)}, "end": {seconds(to)},
		"step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)}, "timeout": {strconv.FormatFloat(c.timeout.Seconds(), 'f', -1, 64) + "s"},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("ask Prometheus: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if c.token != nil {
		token, err := c.token()
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL, which may hold a password
		}
		return nil, fmt.Errorf("ask Prometheus at %s: %w", c.base.Host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read Prometheus' answer: %w", err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("read Prometheus' answer: it is larger than %d MiB; take a longer step or a shorter past", maxAnswer>>20)
	}
	return read(resp, body)
}

func read(resp *http.Response, body []byte) ([]matrix, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("ask Prometheus: %s", resp.Status)
		}
		return nil, fmt.Errorf("read Prometheus' answer: it is not what its API answers: %w", err)
	}
	switch {
	case a.Status != "success":
		return nil, fmt.Errorf("ask Prometheus: %s: %.500s", resp.Status, a.Error)
	case a.Data.ResultType != "matrix":
		return nil, fmt.Errorf("read Prometheus' answer: a %q, not a matrix", a.Data.ResultType)
	}
	out := make([]matrix, len(a.Data.Result))
	for i, r := range a.Data.Result {
		out[i] = matrix{labels: r.Metric, at: make(map[int64]bool, len(r.Values))}
		for _, v := range r.Values {
			at, err := strconv.ParseFloat(string(v[0]), 64)
			if err != nil {
				return nil, fmt.Errorf("read Prometheus' answer: unreadable time: %w", err)
			}
			out[i].at[int64(at*1000+0.5)] = true
		}
	}
	return out, nil
}

func seconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64)
}
