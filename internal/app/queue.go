package app

import (
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/blobstore"
)

// settingError is a fault of one setting of a queue that only making what it describes can find.
type settingError struct {
	setting string
	err     error
}

// Error implements error.
func (e *settingError) Error() string { return e.setting + ": " + e.err.Error() }

// Unwrap returns the fault.
func (e *settingError) Unwrap() error { return e.err }

// openQueue opens a configured queue with what its settings name. It makes no request.
func openQueue(acct *queue.Account, q config.Queue, o FleetOptions) (*queue.Queue, error) {
	c := queue.Config{
		PoisonQueue:           q.PoisonQueue,
		NoPoison:              q.NoPoison,
		KeepPoisonMissing:     !q.CreatePoisonIfMissing,
		CreateIfMissing:       q.CreateIfMissing,
		Encoding:              q.Encoding,
		PoisonTimeToLive:      q.PoisonTimeToLive,
		TypeHeader:            q.TypeHeader,
		PropagateTraceContext: q.PropagateTraceContext,
		Compress:              q.Compress,
		CompressionThreshold:  q.CompressionThreshold,
		Tracer:                o.Tracer,
	}
	if o.OnSend != nil {
		c.OnSend = o.OnSend(q.Account, q.Name)
	}
	if l := q.LargeMessages; l != nil {
		store, err := blobstore.New(acct, blobstore.Config{
			Container: l.Container, KeepContainerMissing: !l.CreateContainer, Endpoint: l.Endpoint,
		})
		if err != nil {
			return nil, &settingError{"largeMessages", err}
		}
		c.BodyStore = store
	}
	return acct.Queue(q.Name, c)
}
