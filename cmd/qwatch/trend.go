package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
)

// trend is what a running qwatch makes of a queue: one look cannot tell it.
type trend struct {
	Status            string   `json:"status"`
	StatusRule        string   `json:"statusRule"`
	StatusSince       string   `json:"statusSince,omitempty"`
	DrainSeconds      *float64 `json:"drainSeconds,omitempty"`
	LossSeconds       *float64 `json:"lossSeconds,omitempty"`
	PoisonStatus      string   `json:"poisonStatus,omitempty"`
	PoisonLossSeconds *float64 `json:"poisonLossSeconds,omitempty"`
}

// judged is a queue with its trend. Nil: no running qwatch told it.
type judged struct {
	app.Depth

	Trend *trend `json:"trend,omitempty"`
}

const (
	trendPatience = 2 * time.Second
	maxTrends     = 256 << 20 // of 10,000 queues it is about 30 MB
)

// trends asks the qwatch that runs here with the same configuration, and returns what it makes of each queue, by
// "account/queue"; of one alone when that is named. Nobody needs to run: no answer is no error. Off: nobody is asked.
func trends(ctx context.Context, off bool, name string, fleet *app.Fleet) map[string]watchedQueue {
	base := listening(fleet.Config())
	if off || base == "" {
		return nil
	}
	queues, err := askTrends(ctx, base+"/api/v1/queues", name)
	if err != nil {
		return nil
	}
	all := make(map[string]watchedQueue, len(queues))
	for _, q := range queues {
		all[q.Account+"/"+q.Queue] = q
	}
	return all
}

// listening returns where a qwatch with that configuration answers on this machine; "" when that cannot be told.
func listening(cfg *config.Config) string {
	host, port, err := net.SplitHostPort(cfg.Server.Listen)
	if err != nil || port == "0" || cfg.Server.WebConfigFile != "" { // who has TLS or passwords is asked by --server
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

func askTrends(ctx context.Context, address, name string) ([]watchedQueue, error) {
	if name != "" {
		address += "/" + name // of characters that need no escape
	}
	ctx, cancel := context.WithTimeout(ctx, trendPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("ask for trends: %w", err)
	}
	// As with a probe: no proxy from the environment, no redirect.
	client := &http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for trends: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s for trends: it answered %s", req.URL.Redacted(), resp.Status)
	}
	var answer struct {
		watchedQueue
		Queues []watchedQueue `json:"queues"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, resp.Body, maxTrends)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("read the trends from %s: %w", req.URL.Redacted(), err)
	}
	if name != "" {
		return []watchedQueue{answer.watchedQueue}, nil
	}
	return answer.Queues, nil
}

// trendOf picks the trend of a queue. One of another storage account that has the same name is passed over.
func trendOf(all map[string]watchedQueue, q app.FleetQueue) *trend {
	found, ok := all[q.String()]
	if !ok || found.Main == nil || found.StorageAccount != q.Account().StorageAccount() {
		return nil
	}
	return found.trend()
}

// lines writes a trend, which may be nil, for "queue show".
func (t *trend) lines(line func(name string, value any)) {
	if t == nil {
		return
	}
	line("trend", trendText(t.Status, t.StatusRule, t.StatusSince))
	line("drained in", t.drain())
	line("loss in", age(t.LossSeconds, false))
	if t.PoisonStatus != "" {
		line("poison trend", t.PoisonStatus)
		line("poison loss in", age(t.PoisonLossSeconds, false))
	}
}

// The cells of a trend, which may be nil.
func (t *trend) cell() cell {
	if t == nil {
		return cell{unknown, plain}
	}
	switch t.Status {
	case "ok", "idle":
		return cell{t.Status, good}
	case "stalled", "falling_behind", "missing", "unreachable":
		return cell{t.Status, bad}
	default:
		return cell{t.Status, warn}
	}
}

func (t *trend) drain() string {
	if t == nil {
		return unknown
	}
	return age(t.DrainSeconds, false)
}

// loss is when the first message is lost, main or poison.
func (t *trend) loss() cell {
	if t == nil {
		return cell{unknown, plain}
	}
	first := t.LossSeconds
	if p := t.PoisonLossSeconds; first == nil || p != nil && *p < *first {
		first = p
	}
	if first == nil {
		return cell{unknown, plain}
	}
	return cell{age(first, false), warn}
}
