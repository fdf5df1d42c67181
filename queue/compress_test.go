package queue_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/queue"
)

// noise is text that gzip cannot shrink by much.
func noise(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		sum := sha256.Sum256(fmt.Append(nil, i))
		b.WriteString(base64.RawStdEncoding.EncodeToString(sum[:]))
	}
	return b.String()[:n]
}

// Q9: bodies are compressed from the threshold on, and only where that makes the wire's text smaller.
func TestCompression(t *testing.T) {
	json := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	headers := map[string]string{"tenant": "contoso"}
	for name, tc := range map[string]struct {
		cfg        queue.Config
		body       string
		headers    map[string]string
		compressed bool
	}{
		"off unless turned on":                     {queue.Config{}, json(4096), nil, false},
		"one byte below 1 KiB":                     {queue.Config{Compress: true}, json(1023), nil, false},
		"1 KiB":                                    {queue.Config{Compress: true}, json(1024), nil, true},
		"1 KiB, with headers":                      {queue.Config{Compress: true}, json(1024), headers, true},
		"1 KiB, in Base64":                         {queue.Config{Compress: true, Encoding: queue.EncodingBase64}, json(1024), nil, true},
		"a body that is not JSON":                  {queue.Config{Compress: true}, strings.Repeat("x ", 600), nil, true},
		"the threshold is a choice":                {queue.Config{Compress: true, CompressionThreshold: 200}, json(200), nil, true},
		"a body gzip cannot shrink":                {queue.Config{Compress: true}, noise(5000), nil, false},
		"a body whose envelope would cost more":    {queue.Config{Compress: true, CompressionThreshold: 1}, json(80), nil, false},
		"a small body that travels in an envelope": {queue.Config{Compress: true, CompressionThreshold: 1}, json(140), headers, true},
		"characters XML forbids":                   {queue.Config{Compress: true}, strings.Repeat("\x00\r\n\xff", 400), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, tc.cfg, func(f *fixture) {
				f.send(tc.body, queue.SendOptions{Headers: tc.headers})
				m := f.one(0)
				text := m.Text
				if tc.cfg.Encoding == queue.EncodingBase64 {
					b, err := base64.StdEncoding.DecodeString(text)
					if err != nil {
						t.Fatal(err)
					}
					text = string(b)
				}
				if got := strings.Contains(text, `"encoding":"gzip"`); got != tc.compressed {
					t.Errorf("compressed %v, want %v: %.200s", got, tc.compressed, text)
				}
				if tc.compressed && len(m.Text) >= len(tc.body) && tc.headers == nil {
					t.Errorf("%d bytes became %d on the wire", len(tc.body), len(m.Text))
				}
				if m.Err != nil || string(m.Body) != tc.body || m.Headers["tenant"] != tc.headers["tenant"] {
					t.Errorf("came back as %.50q with %v, error %v", m.Body, m.Headers, m.Err)
				}
			})
		})
	}
}

func TestCompressionMakesRoom(t *testing.T) {
	body := strings.Repeat("all work and no play ", 20000) // 420,000 bytes
	each(t, queue.Config{Compress: true}, func(f *fixture) {
		f.send(body, queue.SendOptions{})
		if m := f.one(0); string(m.Body) != body {
			t.Errorf("%d bytes, error %v", len(m.Body), m.Err)
		}
		if _, err := f.q.Send(f.ctx, noise(200000), queue.SendOptions{}); !errors.Is(err, queue.ErrTooLarge) {
			t.Errorf("what does not fit compressed either: %v", err)
		}
	})
	// Reading stays bounded.
	each(t, queue.Config{Compress: true, MaxBodyBytes: 400000}, func(f *fixture) {
		f.send(body, queue.SendOptions{})
		if m := f.one(0); !errors.Is(m.Err, queue.ErrUnreadable) || m.Body != nil {
			t.Errorf("%d bytes, error %v", len(m.Body), m.Err)
		}
	})
}

func TestBodySettingsAreChecked(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		for want, cfg := range map[string]queue.Config{
			"compression threshold of -1 bytes is negative":         {Compress: true, CompressionThreshold: -1},
			"a compression threshold is set, but compression is":    {CompressionThreshold: 10},
			"store's threshold of -1 bytes is negative":             {BodyStore: newMemory(), BodyStoreThreshold: -1},
			"a threshold for a body store is set, but there is no":  {BodyStoreThreshold: 10},
			"encryption is required, but there is no key: set KeyW": {RequireEncryption: true},
		} {
			if _, err := f.acct.Queue("orders", cfg); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
	})
}
