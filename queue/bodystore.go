package queue

import (
	"context"
	"encoding/json"
)

// BodyStore keeps bodies that are too large for a queue. The message carries a reference instead
// (the claim-check pattern). Package blobstore keeps them in Blob storage; anything else fits behind
// this interface. Implementations must be safe for concurrent use, and bound their own calls: a
// Fetch that outlives its context is not waited for. A panic is taken for an error that may pass.
//
// What a message says is untrusted input: a store asks only for what can be its own.
type BodyStore interface {
	// Put keeps a body, and returns a reference by which every client of the store can fetch it: a JSON
	// value of a few hundred bytes at most. The body must not be retained.
	Put(ctx context.Context, body []byte) (ref json.RawMessage, err error)
	// Fetch returns a body of at most limit bytes. An error that wraps ErrUnreadable says that trying
	// again cannot help: the reference is not one of the store's, the body is gone, or it is larger.
	// Any other error may pass: the message is not held against it.
	Fetch(ctx context.Context, ref json.RawMessage, limit int) ([]byte, error)
	// Delete removes a body. One that is not there is fine. An error that wraps ErrUnreadable says that
	// the reference is not one of the store's.
	Delete(ctx context.Context, ref json.RawMessage) error
}

// BodyChecker is a BodyStore that can tell whether it can be reached at all. While it cannot, Receive
// takes no messages whose bodies it could not fetch, and so costs them no delivery.
type BodyChecker interface {
	BodyStore
	// Check returns nil when the store answers.
	Check(ctx context.Context) error
}
