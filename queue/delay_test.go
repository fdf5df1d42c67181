package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// A delay travels in an envelope that is there for another reason, and makes none.
func TestADelayTravelsInAnEnvelope(t *testing.T) {
	tests := map[string]struct {
		cfg  queue.Config
		body string
		opts queue.SendOptions
		want time.Duration
	}{
		"with headers":          {queue.Config{}, "x", queue.SendOptions{Headers: map[string]string{"a": "b"}}, time.Minute},
		"with a type":           {queue.Config{Encoding: queue.EncodingBase64}, "x", queue.SendOptions{MessageType: "t"}, time.Minute},
		"with a squeezed body":  {queue.Config{Compress: true}, strings.Repeat("x", 4096), queue.SendOptions{}, time.Minute},
		"without any of them":   {queue.Config{}, "x", queue.SendOptions{}, 0},
		"and nothing else does": {queue.Config{}, `{"a":1}`, queue.SendOptions{}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			each(t, tt.cfg, func(f *fixture) {
				tt.opts.Delay = time.Minute
				if _, err := f.q.Send(f.ctx, tt.body, tt.opts); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Minute)
				m := f.one(time.Minute)
				if m.Err != nil || string(m.Body) != tt.body || m.Delay != tt.want {
					t.Errorf("delay %v, want %v; error %v, text %.100s", m.Delay, tt.want, m.Err, m.Text)
				}
				if plain := m.Text == tt.body; plain != (tt.want == 0) {
					t.Errorf("on the wire: %.100s", m.Text)
				}
			})
		})
	}
}

func TestADelayNobodyCanHaveMeantIsNone(t *testing.T) {
	for _, delay := range []string{`"soon"`, "-1", "1.5", "604801", "99999999999", "null", "{}"} {
		each(t, queue.Config{}, func(f *fixture) {
			text := `{"$azqs-envelope":1,"delay":` + delay + `,"body":1}`
			if _, err := f.q.SendText(f.ctx, text, queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
			if m := f.one(time.Minute); m.Err != nil || m.Delay != 0 || string(m.Body) != "1" {
				t.Errorf("delay %s: %v, %v", delay, m.Delay, m.Err)
			}
		})
	}
}
