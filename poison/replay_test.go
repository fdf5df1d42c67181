package poison_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/encryption"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// poison sends texts and dead-letters each of them.
func (f *fixture) poison(texts ...string) {
	f.Helper()
	for _, text := range texts {
		if err := poison.Move(f.ctx, f.receive(text), poison.CategoryHandler, "no such article"); err != nil {
			f.Fatal(err)
		}
	}
}

func (f *fixture) texts(name string) []string { return f.srv.Texts(queuetest.AccountName, name) }

func (f *fixture) replay(o poison.ReplayOptions) poison.Result {
	f.Helper()
	r, err := poison.Replay(f.ctx, f.q, o)
	if err != nil {
		f.Fatal(err)
	}
	return r
}

func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}

// D2: what is replayed is exactly what was first sent.
func TestReplaySendsTheExactText(t *testing.T) {
	full := noise(3 * queue.MaxTextBytes / 4)
	envelope := func(rest string) string { return `{"$azqs-envelope":1,` + rest + `}` }
	for name, tc := range map[string]struct {
		cfg  queue.Config
		text string
		want string // "": the same
	}{
		"JSON":                                    {text: `{"orderId": 42,  "x":"é"}`},
		"JSON with white space around it":         {text: " {\"a\":1}\r\n"},
		"a plain word":                            {text: "hello"},
		"spaces alone":                            {text: "   \t"},
		"CRLF":                                    {text: "a\r\nb\nc\r"},
		"markup":                                  {text: `<a b="c">&amp;]]></a>`},
		"Base64 that is a body":                   {text: "aGVsbG8="},
		"a full plain text":                       {text: strings.Repeat("x", queue.MaxTextBytes)},
		"full JSON":                               {text: `"` + strings.Repeat("x", queue.MaxTextBytes-2) + `"`},
		"full and not compressible":               {text: full},
		"nearly full and not compressible":        {text: `"` + full[:queue.MaxTextBytes-400] + `"`},
		"an envelope with headers":                {text: envelope(`"traceparent":"tp","headers":{"message-type":"order","tenant":"contoso"},"body":{"a": 1}`)},
		"an envelope with what we do not know":    {text: envelope(`"headers":{"a":"b"},"colour":[1, 2],"body64":"AAEC"`)},
		"an envelope that is full":                {text: envelope(`"headers":{"a":"b"},"body":"` + strings.Repeat("y", queue.MaxTextBytes-51) + `"`)},
		"an envelope whose sender compressed it":  {text: envelope(`"encoding":"gzip","body64":"H4sIAAAAAAAC/8pIzcnJBwQAAP//hqYQNgUAAAA="`)},
		"an envelope within a body":               {text: envelope(`"body":{"$azqs-envelope":1,"body":1}`)},
		"an envelope of a later version":          {text: envelope(`"x":2`)[:17] + `7,"body":1}`},
		"a delayed message":                       {text: envelope(`"headers":{"a":"b"},"delay":60,"body":1`), want: envelope(`"headers":{"a":"b"},"body":1`)},
		"Base64 on a queue that writes it":        {cfg: queue.Config{Encoding: queue.EncodingBase64}, text: "AP8Q"},
		"what is not Base64 on such a queue":      {cfg: queue.Config{Encoding: queue.EncodingBase64}, text: "nö"},
		"Base64 on a queue that reads either":     {cfg: queue.Config{Encoding: queue.EncodingAuto}, text: base64.StdEncoding.EncodeToString([]byte("hello, wörld"))},
		"plain text on a queue that reads either": {cfg: queue.Config{Encoding: queue.EncodingAuto}, text: "hello, wörld"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, tc.cfg, func(f *fixture) {
				f.poison(tc.text)
				r := f.replay(poison.ReplayOptions{})
				r.Unmarked = nil // TestReplayNamesWhatItCannotMark
				if d := cmp.Diff(poison.Result{Chosen: 1, Done: 1, Copies: 1}, r); d != "" {
					t.Error(d)
				}
				want := tc.want
				if want == "" {
					want = tc.text
				}
				if got := f.texts("orders"); len(got) != 1 || got[0] != want {
					t.Errorf("sent %.200q", got)
				}
				if n := len(f.poisoned()); n != 0 {
					t.Errorf("%d messages are left on the poison queue", n)
				}
			})
		})
	}
}

// D2: bare copies by Azure Functions and plain messages are replayed as they lie there.
func TestReplayOfMessagesWithoutARecord(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		want := []string{"bare", `{"$azqs-envelope":1,"headers":{"message-type":"order"},"body":{"a":1}}`, " x\r\n", strings.Repeat("z", queue.MaxTextBytes)}
		if err := f.q.Poison().Create(f.ctx); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if _, err := f.q.Poison().SendText(f.ctx, text, queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		f.replay(poison.ReplayOptions{})
		if d := cmp.Diff(want, f.texts("orders")); d != "" {
			t.Error(d)
		}
	})
}

func TestReplayOfEncryptedMessages(t *testing.T) {
	key, err := encryption.NewAESKey("k", []byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	each(t, queue.Config{KeyWrapper: key}, func(f *fixture) {
		if _, err := f.q.Send(f.ctx, "secret", queue.SendOptions{Headers: map[string]string{"a": "b"}}); err != nil {
			t.Fatal(err)
		}
		ms, err := f.q.Receive(f.ctx, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := poison.Move(f.ctx, ms[0], poison.CategoryHandler, "r"); err != nil {
			t.Fatal(err)
		}
		// Who has no key can neither tell what it is nor replay it.
		blind, err := f.acct.Queue("orders", queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := poison.List(f.ctx, blind)
		if err != nil || len(l.Entries) != 1 || l.Entries[0].Category != poison.CategoryOther || !strings.Contains(l.Entries[0].Reason, "no key") {
			t.Errorf("listed without a key: %+v, %v", l, err)
		}
		r, err := poison.Replay(f.ctx, blind, poison.ReplayOptions{})
		if err != nil || r.Done != 0 || len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0].Reason, "no key") {
			t.Errorf("replayed without a key: %+v, %v", r, err)
		}
		if r := f.replay(poison.ReplayOptions{}); r.Done != 1 {
			t.Fatalf("result %+v", r)
		}
		ms, err = f.q.Receive(f.ctx, 1, 0)
		if err != nil || len(ms) != 1 || string(ms[0].Body) != "secret" || ms[0].Headers["a"] != "b" || ms[0].Record != nil {
			t.Errorf("received %+v, %v", ms, err)
		}
		if strings.Contains(ms[0].Text, "secret") {
			t.Error("it was sent in the clear")
		}
	})
}

func TestReplayChoosesByFilter(t *testing.T) {
	type order struct {
		Total int `json:"total"`
	}
	now := time.Hour
	for name, tc := range map[string]struct {
		filter func(ids []string) poison.Filter
		want   []string
	}{
		"everything": {func([]string) poison.Filter { return poison.Filter{} }, []string{`{"total":1}`, `{"total":2}`, `{"total":3}`}},
		"by category": {func([]string) poison.Filter {
			return poison.Filter{Categories: []poison.Category{poison.CategoryMaxAge}}
		}, []string{`{"total":2}`}},
		"by reason": {func([]string) poison.Filter { return poison.Filter{Reason: "CARD"} }, []string{`{"total":3}`}},
		"by id":     {func(ids []string) poison.Filter { return poison.Filter{IDs: ids[:1]} }, []string{`{"total":1}`}},
		"older":     {func([]string) poison.Filter { return poison.Filter{OlderThan: now + now/2} }, []string{`{"total":1}`}},
		"newer":     {func([]string) poison.Filter { return poison.Filter{NewerThan: now / 2} }, []string{`{"total":3}`}},
		"by a func of the body": {func([]string) poison.Filter {
			return poison.Filter{Match: func(e *poison.Entry) bool {
				o, err := poison.Body[order](e)
				return err == nil && o.Total > 1
			}}
		}, []string{`{"total":2}`, `{"total":3}`}},
	} {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, all %v", name, all), func(t *testing.T) {
				each(t, queue.Config{}, func(f *fixture) {
					var ids []string
					for i, c := range []poison.Category{poison.CategoryHandler, poison.CategoryMaxAge, poison.CategoryHandler} {
						m := f.receive(fmt.Sprintf(`{"total":%d}`, i+1))
						ids = append(ids, m.ID)
						if err := poison.Move(f.ctx, m, c, []string{"a", "b", "the card is void"}[i]); err != nil {
							t.Fatal(err)
						}
						if i < 2 {
							time.Sleep(now)
						}
					}
					o := poison.ReplayOptions{Selection: poison.Selection{All: all, Filter: tc.filter(ids)}}
					dry := o
					dry.DryRun = true
					var chosen []string
					dry.Chosen = func(e *poison.Entry) error { chosen = append(chosen, string(e.Message().Body)); return nil }
					if r := f.replay(dry); r.Chosen != len(tc.want) || !r.DryRun || len(f.poisoned()) != 3 {
						t.Errorf("dry run: %+v", r)
					}
					if d := cmp.Diff(tc.want, chosen); d != "" {
						t.Errorf("chosen: %s", d)
					}
					r := f.replay(o)
					if d := cmp.Diff(tc.want, f.texts("orders")); d != "" || r.Done != len(tc.want) || r.Left != 0 {
						t.Errorf("%s%+v", d, r)
					}
					if n := len(f.poisoned()); n != 3-len(tc.want) {
						t.Errorf("%d left", n)
					}
				})
			})
		}
	}
}

// All copies of a message are removed, and it is sent once.
func TestReplayRemovesEveryCopy(t *testing.T) {
	for _, all := range []bool{false, true} {
		each(t, queue.Config{}, func(f *fixture) {
			m := f.receive("x")
			remove := f.srv.Inject(queuetest.Fault{Operation: queuetest.OpDelete, Status: 403, Code: "AuthorizationFailure"})
			for range 3 {
				if err := poison.Move(f.ctx, m, poison.CategoryHandler, "r"); err == nil {
					t.Fatal("the delete worked")
				}
			}
			remove()
			f.poison("y")
			if err := m.Complete(f.ctx); err != nil {
				t.Fatal(err)
			}
			r := f.replay(poison.ReplayOptions{Selection: poison.Selection{All: all}})
			if d := cmp.Diff(poison.Result{Chosen: 2, Done: 2, Copies: 4}, r); d != "" {
				t.Error(d)
			}
			got := f.texts("orders")
			slices.Sort(got)
			if d := cmp.Diff([]string{"x", "y"}, got); d != "" || len(f.poisoned()) != 0 {
				t.Errorf("%s%d left", d, len(f.poisoned()))
			}
		})
	}
}

// Whatever breaks between receive and delete: nothing is lost, what may be doubled is named, and the next
// run finishes.
func TestReplayThatIsCutOffLosesNothing(t *testing.T) {
	for name, fault := range map[string]queuetest.Fault{
		"the mark is refused":          {Operation: queuetest.OpUpdate, Status: 403, Code: "AuthorizationFailure"},
		"the mark's answer is lost":    {Operation: queuetest.OpUpdate, DropResponse: true},
		"the send is refused":          {Queue: "orders", Operation: queuetest.OpSend, Status: 403, Code: "AuthorizationFailure"},
		"the send's answer is lost":    {Queue: "orders", Operation: queuetest.OpSend, DropResponse: true},
		"the send fails somewhere":     {Queue: "orders", Operation: queuetest.OpSend, Status: 500},
		"the delete is refused":        {Operation: queuetest.OpDelete, Status: 403, Code: "AuthorizationFailure"},
		"the delete's answer is lost":  {Operation: queuetest.OpDelete, Times: 1, DropResponse: true},
		"the receive's answer is lost": {Operation: queuetest.OpReceive, DropResponse: true},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, queue.Config{}, func(f *fixture) {
				var all []string
				for i := range 5 {
					all = append(all, fmt.Sprint("m", i))
				}
				f.poison(all...)
				fault.Skip = 2
				if fault.Operation == queuetest.OpReceive {
					fault.Skip = 0
				}
				remove := f.srv.Inject(fault)
				first, err := poison.Replay(f.ctx, f.q, poison.ReplayOptions{})
				if fault.Times == 0 && err == nil {
					t.Fatalf("it did not fail: %+v", first)
				}
				remove()
				second := f.replay(poison.ReplayOptions{Selection: poison.Selection{All: true}})
				count := map[string]int{}
				doubled := 0
				for _, text := range f.texts("orders") {
					count[text]++
				}
				for _, text := range all {
					switch count[text] {
					case 0:
						t.Errorf("%s is lost", text)
					case 1:
					case 2:
						doubled++
					default:
						t.Errorf("%s was sent %d times", text, count[text])
					}
				}
				if reported := len(second.MayHaveBeenSent); doubled > 1 || reported < doubled || reported > 1 {
					t.Errorf("%d doubled, %v reported", doubled, second.MayHaveBeenSent)
				}
				if n := len(f.poisoned()); n != 0 {
					t.Errorf("%d left; %+v", n, second)
				}
			})
		})
	}
}

// A message without a record keeps its exact text through an interrupted replay, whose mark has room only
// in an envelope.
func TestInterruptedReplayOfABareCopyKeepsItsText(t *testing.T) {
	for _, cfg := range []queue.Config{{}, {Encoding: queue.EncodingBase64}, {Encoding: queue.EncodingAuto}} {
		for _, text := range []string{"bare\r\n", `{"$azqs-envelope":1,"headers":{"a":"b"},"body":1}`, "AP8Q", `{"$azqs-envelope":9}`, strings.Repeat("x", queue.MaxTextBytes)} {
			each(t, cfg, func(f *fixture) {
				if err := errors.Join(f.q.Create(f.ctx), f.q.Poison().Create(f.ctx)); err != nil {
					t.Fatal(err)
				}
				if _, err := f.q.Poison().SendText(f.ctx, text, queue.SendOptions{}); err != nil {
					t.Fatal(err)
				}
				id := f.list().Entries[0].MessageID
				remove := f.srv.Inject(queuetest.Fault{Queue: "orders", Operation: queuetest.OpSend, Status: 500})
				if _, err := poison.Replay(f.ctx, f.q, poison.ReplayOptions{}); err == nil {
					t.Fatal("it was sent")
				}
				remove()
				if got := f.poisoned()[0].Text; got == text {
					t.Fatal("there is no mark")
				}
				e := f.list().Entries[0]
				if e.MayHaveBeenSent == nil || e.MessageID != id {
					t.Errorf("listed as %+v", e)
				}
				if r := f.replay(poison.ReplayOptions{}); len(r.MayHaveBeenSent) != 1 || r.MayHaveBeenSent[0] != id {
					t.Errorf("reported %v", r.MayHaveBeenSent)
				}
				if got := f.texts("orders"); len(got) != 1 || got[0] != text {
					t.Errorf("sent %.100q, want %.100q", got, text)
				}
			})
		}
	}
}

// What has no room for a mark is named before it is sent: a kill just then leaves nothing for the next run to find.
func TestReplayNamesWhatItCannotMark(t *testing.T) {
	full := noise(3 * queue.MaxTextBytes / 4)
	for name, tc := range map[string]struct {
		text     string
		unmarked bool
	}{
		"full and not compressible": {full, true},
		"full":                      {strings.Repeat("x", queue.MaxTextBytes), false},
		"not quite full":            {full[:queue.MaxTextBytes-1000], false},
		"short":                     {"x", false},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, queue.Config{}, func(f *fixture) {
				f.poison(tc.text)
				id := f.list().Entries[0].MessageID
				var named []string
				s := poison.Selection{Unmarked: func(id string) {
					if named = append(named, id); len(f.texts("orders")) > 0 {
						t.Error("it was sent before")
					}
				}}
				r := f.replay(poison.ReplayOptions{Selection: s})
				var want []string
				if tc.unmarked {
					want = []string{id}
				}
				if d := cmp.Diff(want, named) + cmp.Diff(want, r.Unmarked); d != "" || r.Done != 1 {
					t.Errorf("%s%+v", d, r)
				}
			})
		})
	}
}

// What is dead-lettered while a replay works is left for the next time: it would go round for ever.
func TestReplayLeavesWhatFailsMeanwhile(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		f.poison("a", "b", "c")
		r := f.replay(poison.ReplayOptions{Selection: poison.Selection{All: true}, Sent: func(ctx context.Context, s poison.Replayed) {
			ms, err := f.q.Receive(ctx, 1, 0)
			if err != nil || len(ms) != 1 || ms[0].ID != s.MessageID {
				t.Fatalf("received %v, %v", ms, err)
			}
			if err := poison.Move(ctx, ms[0], poison.CategoryHandler, "again"); err != nil {
				t.Fatal(err)
			}
		}})
		if r.Done != 3 || len(f.poisoned()) != 3 {
			t.Errorf("%+v, %d on the poison queue", r, len(f.poisoned()))
		}
	})
}

func TestReplayKeepsItsPaceAndItsLeases(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		for i := range 40 {
			f.poison(fmt.Sprint(i))
		}
		start := time.Now()
		// Another reader finds nothing to take while the replay is slow.
		stolen := 0
		r := f.replay(poison.ReplayOptions{Selection: poison.Selection{All: true}, Rate: .05, Sent: func(context.Context, poison.Replayed) { stolen++ }})
		if took := time.Since(start); took < 39*20*time.Second || took > 45*20*time.Second {
			t.Errorf("it took %v", took)
		}
		if r.Done != 40 || stolen != 40 {
			t.Errorf("%+v", r)
		}
	})
}

func TestReplayStopsWhenItsContextEnds(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		for i := range 40 {
			f.poison(fmt.Sprint(i))
		}
		ctx, cancel := context.WithCancel(f.ctx)
		n := 0
		r, err := poison.Replay(ctx, f.q, poison.ReplayOptions{Selection: poison.Selection{All: true}, Sent: func(context.Context, poison.Replayed) {
			if n++; n == 7 {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) || r.Done != 7 {
			t.Errorf("%+v, %v", r, err)
		}
		if got := len(f.texts("orders")); got != 7 {
			t.Errorf("%d sent", got)
		}
		// Nothing is hidden, and nothing marked.
		l := f.list()
		if l.Peeked != 32 || len(f.poisoned()) != 33 {
			t.Errorf("%d visible of %d", l.Peeked, len(f.poisoned()))
		}
		if r := f.replay(poison.ReplayOptions{Selection: poison.Selection{All: true}}); r.Done != 33 || len(r.MayHaveBeenSent) > 0 {
			t.Errorf("%+v", r)
		}
	})
}
