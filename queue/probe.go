package queue

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// What a probe's message is like: it would be visible for a second, should nobody be allowed to delete it.
const (
	probeText  = "qwatch doctor"
	probeDelay = 59 * time.Second
	probeTTL   = 60 * time.Second
)

// ErrProbeLeft says that Probe of OpSend was not allowed to delete its message again: it is hidden for
// 59 s, and expires after 60 s. The send itself was allowed.
var ErrProbeLeft = errors.New("the message sent to try it could not be deleted again")

// Probe asks the service whether an operation on the queue is permitted, and leaves the queue as it was. Nil is
// yes; the error is what the operation itself would have failed with, ErrQueueNotFound among it.
//
//   - OpProperties reads the count, OpPeek peeks at one message.
//   - OpUpdate and OpDelete name a message that does not exist, which the service says only to those who may.
//     Who may delete and peek may receive as well; receiving itself would hide messages, and is not tried.
//   - OpSend sends a message that is hidden from its birth, and deletes it by its receipt; see ErrProbeLeft.
//   - OpCreate creates the queue again, which changes nothing. A queue that is missing is not created:
//     ErrQueueNotFound.
//
// Other operations cannot be tried.
func (q *Queue) Probe(ctx context.Context, op Operation) error {
	ctx, _, cancel := q.acct.idempotent(ctx)
	defer cancel()
	switch op {
	case OpProperties:
		_, err := q.Properties(ctx)
		return err
	case OpPeek:
		one := int32(1)
		_, err := q.client.PeekMessages(ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: &one})
		return q.wrap(op, err)
	case OpDelete:
		id, receipt := noMessage()
		_, err := q.client.DeleteMessage(ctx, id, receipt, nil)
		return q.noSuch(op, err)
	case OpUpdate:
		id, receipt := noMessage()
		_, err := q.client.UpdateMessage(ctx, id, receipt, probeText, &azqueue.UpdateMessageOptions{VisibilityTimeout: seconds(0)})
		return q.noSuch(op, err)
	case OpSend:
		return q.probeSend(ctx)
	case OpCreate:
		if _, err := q.Properties(ctx); err != nil {
			return err
		}
		return q.Create(ctx)
	default:
		return fmt.Errorf("try to %s %s: there is no way to try it without doing it", op, q)
	}
}

// noSuch takes the service's word that there is no such message for a permission.
func (q *Queue) noSuch(op Operation, err error) error {
	if err = q.wrap(op, err); hasCode(err, codeMessageNotFound, codeReceiptMismatch) {
		return nil
	}
	return err
}

func (q *Queue) probeSend(ctx context.Context) error {
	sent, err := q.client.EnqueueMessage(ctx, probeText, &azqueue.EnqueueMessageOptions{
		VisibilityTimeout: seconds(probeDelay), TimeToLive: seconds(probeTTL),
	})
	if err != nil {
		return q.wrap(OpSend, err)
	}
	if len(sent.Messages) != 1 || sent.Messages[0] == nil {
		return q.wrap(OpSend, errNoReceipt)
	}
	m := sent.Messages[0]
	if _, err := q.client.DeleteMessage(ctx, val(m.MessageID), val(m.PopReceipt), nil); err != nil {
		return fmt.Errorf("%w: %w", ErrProbeLeft, q.wrap(OpDelete, err))
	}
	return nil
}

// receiptPrefix is how the service's receipts begin; 8 bytes follow.
const receiptPrefix = "AgAAAAMAAAAAAAAA"

// noMessage returns the id of no message, and a receipt of the form the service gives.
func noMessage() (id, receipt string) {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16]), receiptPrefix + base64.StdEncoding.EncodeToString(b[16:24])
}

// SignsWith tells how the account signs its requests: "key", "sas" or "identity".
func (a *Account) SignsWith() string {
	switch {
	case a.signIn.identity != nil:
		return "identity"
	case a.signIn.sas.Load() != nil:
		return "sas"
	default:
		return "key"
	}
}
