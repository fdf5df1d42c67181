package demo

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"time"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// oldPoison is what was dead-lettered before the demo began, with the words that handlers from the
// configuration leave.
var oldPoison = [...]struct {
	ago      time.Duration
	category poison.Category
	reason   string
}{
	{5 * time.Hour, poison.CategoryHandler, refusals[0]},
	{4*time.Hour + 50*time.Minute, poison.CategoryHandler, refusals[0]},
	{3 * time.Hour, poison.CategoryMaxDequeue, "handler answered 500 Internal Server Error"},
	{95 * time.Minute, poison.CategoryHandler, refusals[2]},
	{40 * time.Minute, poison.CategoryMaxDequeue, "handler at 127.0.0.1:8080 gave no answer within 30s"},
}

// maxDequeueCount is what consumers have that do not say.
const maxDequeueCount = 5

// oldBacklog is how many messages nobody has consumed over backlogSpan.
const (
	oldBacklog  = 180
	backlogSpan = 45 * time.Minute
)

// history gives the queues a past: a backlog that has grown for most of an hour, and
// poison from earlier in the day. The service's clock is set back for it.
func history(ctx context.Context, s *Service, fleet *app.Fleet, d *dice) error {
	for _, q := range fleet.Queues {
		if err := q.Create(ctx); err != nil {
			return fmt.Errorf("create the demo's queues: %w", err)
		}
	}
	defer s.SetClockOffset(0)
	for i, p := range oldPoison {
		s.SetClockOffset(-p.ago)
		if err := s.poisonOne(ctx, p.category, p.reason, 9000+i, d); err != nil {
			return fmt.Errorf("give the demo a past: %w", err)
		}
	}
	backlog, done, err := s.pastQueue("audit")
	if err != nil {
		return fmt.Errorf("give the demo a past: %w", err)
	}
	defer done()
	p := producer{q: backlog, now: s.Now, dice: d}
	for i := range oldBacklog {
		s.SetClockOffset(-backlogSpan + backlogSpan*time.Duration(i)/oldBacklog)
		if err := p.send(ctx, i+1); err != nil {
			return fmt.Errorf("give the demo a past: %w", err)
		}
	}
	return nil
}

// poisonOne sends a payment and dead-letters it.
func (s *Service) poisonOne(ctx context.Context, category poison.Category, reason string, number int, d *dice) error {
	q, done, err := s.pastQueue("payments")
	if err != nil {
		return err
	}
	defer done()
	if err := (&producer{q: q, now: s.Now, dice: d}).send(ctx, number); err != nil {
		return err
	}
	deliveries := 1
	if category == poison.CategoryMaxDequeue {
		deliveries = maxDequeueCount
	}
	died := poison.Case{Category: category, Reason: reason}
	for n := range deliveries {
		messages, err := q.Receive(ctx, 1, 30*time.Second)
		if err != nil {
			return err
		}
		for _, m := range messages {
			died.Attempts = append(died.Attempts, queue.Attempt{Number: m.DequeueCount, At: m.ReceivedAt, Error: reason})
			if n+1 < deliveries {
				err = m.Abandon(ctx, 0)
			} else {
				err = died.Move(ctx, m)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// pastQueue opens a queue for a time at which the service's clock is set back. It signs in
// with a SAS: the service refuses requests that are signed with a key and dated hours away
// from its clock. The account is new each time, because an account learns the service's
// clock.
func (s *Service) pastQueue(name string) (q *queue.Queue, done func(), err error) {
	a, err := queue.NewAccount(queue.AccountConfig{
		Name: account, Endpoint: s.Endpoint(queuetest.AccountName), SAS: queue.Secret(s.sas()), Transport: s.Server,
	})
	if err != nil {
		return nil, nil, err
	}
	q, err = a.Queue(name, queue.Config{})
	if err != nil {
		a.Close()
		return nil, nil, err
	}
	return q, a.Close, nil
}

// sas signs an account SAS that allows everything on queues and messages for ten years.
func (s *Service) sas() string {
	const version, permissions, services, types = "2018-11-09", "rwdlacup", "q", "sco"
	expiry := time.Now().AddDate(10, 0, 0).UTC().Format(time.RFC3339)
	key, err := base64.StdEncoding.DecodeString(s.Key(queuetest.AccountName))
	if err != nil {
		panic(err) // the server has checked its keys
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s\n\n%s\n\n\n%s\n", queuetest.AccountName, permissions, services, types, expiry, version)
	return url.Values{
		"sv": {version}, "sp": {permissions}, "ss": {services}, "srt": {types}, "se": {expiry},
		"sig": {base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}.Encode()
}
