package web

import (
	"sync"
	"time"

	"github.com/qwatch/qwatch/internal/triage"
)

// beatEvery is how long a stream of events is quiet at most once it has told how far the work is: what stands
// between may cut off a connection that says nothing for a minute, and with it the work.
const beatEvery = 15 * time.Second

// beat sends events, and how far the work was again whenever there is nothing new. Safe for concurrent use.
type beat struct {
	mu     sync.Mutex
	send   func(triage.Event) error
	last   triage.Event // that told how far it is
	known  bool         // there was one
	at     time.Time    // of the last event
	done   chan struct{}
	exited chan struct{}
	once   sync.Once
}

// startBeat starts one, to be ended before anything else is sent.
func startBeat(send func(triage.Event) error) *beat {
	b := &beat{send: send, at: time.Now(), done: make(chan struct{}), exited: make(chan struct{})}
	go b.run()
	return b
}

func (b *beat) tell(e triage.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Looking != nil || e.Progress != nil || e.Waiting != nil {
		b.last, b.known = e, true
	}
	b.at = time.Now()
	return b.send(e)
}

func (b *beat) run() {
	defer close(b.exited)
	t := time.NewTicker(beatEvery / 5)
	defer t.Stop()
	for {
		select {
		case <-b.done:
			return
		case <-t.C:
			b.again()
		}
	}
}

func (b *beat) again() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.known || time.Since(b.at) < beatEvery {
		return
	}
	b.at = time.Now()
	_ = b.send(b.last) // it fails again at what matters
}

// end has it send nothing more. Calling it again does nothing.
func (b *beat) end() {
	b.once.Do(func() { close(b.done) })
	<-b.exited
}
