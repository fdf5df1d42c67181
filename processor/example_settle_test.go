package processor_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// A handler says what is to become of its message by the error it returns, or settles it by itself.
func ExampleHandlerFunc() {
	errBadAddress := errors.New("no such street")
	h := processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error {
		switch string(m.Body) {
		case "bad address":
			return processor.Permanent(errBadAddress) // to the poison queue, now
		case "sent before":
			return processor.Discard(nil) // done: delete it
		case "carrier is busy":
			return processor.Throttled(time.Minute, errors.New("429 Too Many Requests")) // try again then
		case "not yet":
			return m.Abandon(ctx, time.Hour) // our own decision, and no failure
		}
		return errors.New("carrier failed") // try again after the configured delay
	})
	for _, body := range []string{"bad address", "carrier is busy", "parcel"} {
		m := &processor.Message{Message: &queue.Message{Body: []byte(body), DequeueCount: 1}}
		fmt.Println(h.Handle(context.Background(), m))
	}
	// Output:
	// no such street
	// 429 Too Many Requests
	// carrier failed
}
