package web

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/story"
	"github.com/qwatch/qwatch/internal/triage"
)

func TestWorkInWords(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	looking := func(done, of int64) triage.Event { return triage.Event{Looking: &triage.Progress{Done: done, Of: of}} }
	acting := func(done, of int64) triage.Event { return triage.Event{Progress: &triage.Progress{Done: done, Of: of}} }
	for name, tt := range map[string]struct {
		op     triage.Operation
		c      triage.Command
		events []triage.Event // 10 s apart
		want   workModel
	}{
		"a replay that has not said anything": {triage.Replay, triage.Command{}, nil, workModel{Text: "ann replays dead-lettered messages", Note: "begun just now"}},
		"a walk with its pace and what is left of it": {
			triage.List,
			triage.Command{All: true},
			[]triage.Event{looking(0, 400), looking(100, 400)},
			workModel{"ann looks through the poison queue", "begun 20 s ago · 100 of 400 messages looked at · 10/s · about 30 s left", 100, 400},
		},
		"acting is another phase than looking": {
			triage.Replay,
			triage.Command{All: true},
			[]triage.Event{looking(0, 400), looking(400, 400), acting(0, 50), acting(1, 50)},
			workModel{"ann replays dead-lettered messages", "begun 40 s ago · 1 of 50 messages done · 0.1/s · about 8 m 10 s left", 1, 50},
		},
		"more than was thought to be there": {triage.Delete, triage.Command{All: true}, []triage.Event{looking(12, 10)}, workModel{"ann deletes dead-lettered messages", "begun 10 s ago · 12 of 12 messages looked at", 12, 12}},
		"waiting for what is hidden": {
			triage.Export,
			triage.Command{All: true},
			[]triage.Event{looking(3, 5), {Waiting: new(int64(2))}},
			workModel{"ann exports dead-lettered messages", "begun 20 s ago · 3 of 5 messages looked at · waiting for 2 messages that somebody hides", 3, 5},
		},
		"a dry run of a replay":   {triage.Replay, triage.Command{DryRun: true}, nil, workModel{Text: "ann finds out what a replay would do", Note: "begun just now"}},
		"a dry run of an import":  {opImport, triage.Command{DryRun: true}, nil, workModel{Text: "ann finds out what an import would do", Note: "begun just now"}},
		"a dry run of a deletion": {triage.Purge, triage.Command{DryRun: true}, nil, workModel{Text: "ann finds out what a deletion would do", Note: "begun just now"}},
		"an import":               {opImport, triage.Command{}, nil, workModel{Text: "ann imports dead-lettered messages", Note: "begun just now"}},
	} {
		t.Run(name, func(t *testing.T) {
			now := begun
			p := &running{operator: "ann", operation: tt.op, command: tt.c, since: begun}
			for _, e := range tt.events {
				now = now.Add(10 * time.Second)
				p.note(e, now)
			}
			if d := cmp.Diff(&tt.want, p.model(now)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestWhoConsumesElsewhere(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		e    Elsewhere
		ok   bool
		want string
	}{
		"nobody is asked":     {Elsewhere{}, false, "Whether other processes consume it is not known here; scaling.peers in the configuration would have them asked."},
		"what is not known":   {Elsewhere{Unknown: "the peers have not been asked yet"}, true, "What the other processes of scaling.peers do is not known: the peers have not been asked yet."},
		"nobody":              {Elsewhere{}, true, "None of the other processes of scaling.peers consumes it."},
		"one":                 {Elsewhere{Replicas: 1, Handlers: 2, Slots: 16, Age: 4 * time.Second}, true, "One other process consumes it, with 2 of 16 handlers at work, as it said 4 s ago."},
		"several, the eldest": {Elsewhere{Replicas: 3, Handlers: 5, Slots: 48, Age: 9 * time.Second}, true, "3 other processes consume it, with 5 of 48 handlers at work, as they said 9 s ago at most."},
	} {
		t.Run(name, func(t *testing.T) {
			h := &handler{Options: Options{Elsewhere: func(account, queue string) (Elsewhere, bool) {
				if account != "acct" || queue != "orders" {
					t.Errorf("asked about %s/%s", account, queue)
				}
				return tt.e, tt.ok
			}}}
			if got := h.elsewhereFacts(story.Name{Account: "acct", Queue: "orders"}); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
