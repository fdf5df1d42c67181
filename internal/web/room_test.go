package web_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/queue"
)

// Messages of some kilobytes that decompress a thousandfold make no answer larger than others are, and none is unpacked
// for who did not ask for bodies.
func TestMessagesThatDecompressAThousandfold(t *testing.T) {
	const size, n = 3 << 20, 6
	s := tend(t)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(bytes.Repeat([]byte{'"'}, size))
	if err = errors.Join(err, z.Close(), s.q.Create(t.Context()), s.q.Poison().Create(t.Context())); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"$azqs-envelope":1,"encoding":"gzip","body64":%q}`, base64.StdEncoding.EncodeToString(b.Bytes()))
	for range n {
		_, err := s.q.SendText(t.Context(), text, queue.SendOptions{})
		_, poisoned := s.q.Poison().SendText(t.Context(), text, queue.SendOptions{})
		if err = errors.Join(err, poisoned); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(path string, more ...string) string {
		t.Helper()
		status, text := s.ask("GET", path, "", append(more, "Qwatch-Token", operatorToken)...)
		if status != 200 || len(text) > 17<<20 && len(more) == 0 {
			t.Fatalf("%s: %d, %d bytes", path, status, len(text))
		}
		return text
	}
	type seen struct {
		SizeBytes int
		Partial   bool
		triage.Payload
	}
	full := func(list []seen) (whole int) {
		t.Helper()
		for _, m := range list {
			if m.SizeBytes != size {
				t.Errorf("%d bytes", m.SizeBytes)
			}
			if len(m.Body64) == size {
				whole++
			}
		}
		return whole
	}
	const main = "/api/v1/queues/acct/orders/messages?max=32"
	for _, body := range []bool{false, true} {
		var list []seen
		if err := json.Unmarshal([]byte(ask(fmt.Sprint(main, "&body=", body))), &list); err != nil {
			t.Fatal(err)
		}
		if whole := full(list); len(list) != n || body != (whole == 4) || list[n-1].Partial != body || list[0].Partial {
			t.Errorf("body %t: %d messages, %d of them whole", body, len(list), whole)
		}
		var view struct {
			Entries []seen
			Partial bool
		}
		if err := json.Unmarshal([]byte(ask(fmt.Sprint(poisonPath, "?body=", body))), &view); err != nil {
			t.Fatal(err)
		}
		if whole := full(view.Entries); len(view.Entries) != map[bool]int{false: n, true: 3}[body] || body != (whole == 3) || view.Partial != body {
			t.Errorf("body %t: %d entries, %d of them whole, partial %t", body, len(view.Entries), whole, view.Partial)
		}
	}
	if lines := strings.Count(ask(poisonPath+"?all=true&body=true", "Accept", "application/jsonl"), `{"entry"`); lines != n {
		t.Errorf("%d lines", lines)
	}
	for _, path := range []string{main, poisonPath, poisonPath + "?all=true", poisonPath + "/export"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ask(path)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 3*size {
			t.Errorf("%s allocates %d MiB", path, used>>20)
		}
	}
}
