package scaler

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/qwatch/qwatch/internal/metric"
)

// fetch asks one peer for its metrics.
func (p *Peers) fetch(ctx context.Context, address string) (map[key]work, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	req.Header.Set("User-Agent", "qwatch")
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %d", resp.StatusCode)
	}
	body := &io.LimitedReader{R: resp.Body, N: maxPeerBytes}
	queues, err := parseWork(body)
	if body.N <= 0 {
		return nil, fmt.Errorf("its metrics are larger than %d bytes", maxPeerBytes)
	}
	return queues, err
}

// parseWork reads what an exposition says about consumers.
func parseWork(r io.Reader) (map[key]work, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, fmt.Errorf("read its metrics: %w", err)
	}
	queues := map[key]work{}
	each := func(name string, add func(*work, *dto.Metric)) {
		for _, m := range families[name].GetMetric() {
			var k key
			for _, l := range m.GetLabel() {
				switch l.GetName() {
				case metric.LabelAccount:
					k.account = l.GetValue()
				case metric.LabelQueue:
					k.queue = l.GetValue()
				}
			}
			if k.queue == "" {
				continue
			}
			w := queues[k]
			add(&w, m)
			queues[k] = w
		}
	}
	each(metric.ActiveHandlers, func(w *work, m *dto.Metric) { w.handlers += whole(gauge(m)) })
	each(metric.MaxHandlers, func(w *work, m *dto.Metric) { w.slots += whole(gauge(m)) })
	each(metric.HeldMessages, func(w *work, m *dto.Metric) { w.held += whole(gauge(m)) })
	each(metric.ProcessingDuration, func(w *work, m *dto.Metric) {
		h := m.GetHistogram()
		if sum := h.GetSampleSum(); sum >= 0 && sum < math.MaxInt64/float64(time.Second) { // NaN is neither
			w.n += h.GetSampleCount()
			w.total += time.Duration(sum * float64(time.Second))
		}
	})
	for k, w := range queues {
		queues[k] = w.bounded()
	}
	return queues, nil
}

// bounded is work as one process can do it: no more handlers than slots, where it tells them.
func (w work) bounded() work {
	w.slots = min(w.slots, maxSlots)
	w.handlers = min(w.handlers, maxSlots)
	if w.slots > 0 {
		w.handlers = min(w.handlers, w.slots)
	}
	return w
}

func gauge(m *dto.Metric) float64 {
	if m.Untyped != nil {
		return m.GetUntyped().GetValue()
	}
	return m.GetGauge().GetValue()
}

// whole is a count as it can be trusted: what others send may be anything.
func whole(v float64) int {
	const most = 1e6
	if !(v > 0) {
		return 0
	}
	return int(min(v, most))
}
