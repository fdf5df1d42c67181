package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
)

// What one request of an import carries: when it breaks off, no more than that is put back again.
const (
	batchLines = 256
	batchBytes = 256 << 10
)

// Import has the server put the lines of an export back, as triage.Import does, some at a time: whatever
// ends it, the result says with which line to go on. Its Next is 0 when nothing was begun. Messages of the
// last request may have been put back already; Imported counts those that the server told of.
func (c *Client) Import(ctx context.Context, account, queue string, lines io.Reader, o triage.ImportOptions) (triage.Imported, error) {
	b := batches{in: bufio.NewReaderSize(lines, 64<<10), next: 1}
	total := triage.Imported{DryRun: o.DryRun}
	for {
		first, body, err := b.read(max(o.From, 1))
		if err != nil {
			return total, fmt.Errorf("read line %d: %w", b.next, err)
		}
		if len(body) == 0 && total.Next > 0 {
			return total, nil
		}
		done, err := c.importBatch(ctx, account, queue, first, body, o.DryRun, total.Next > 0)
		total.Imported += done.Imported
		switch {
		case done.Next > 0:
			total.Next = done.Next
		case err != nil && begun(err):
			total.Next = first
		}
		if err != nil || len(body) == 0 {
			return total, err
		}
	}
}

// begun says that a request that failed may have been carried out in part.
func begun(err error) bool {
	if _, refused := errors.AsType[*Error](err); refused {
		return false
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return !ok || dial.Op != "dial"
}

// Somebody else's work on the queue may come between two requests of an import.
const (
	busyTries = 30
	busyWait  = time.Second
)

func (c *Client) importBatch(ctx context.Context, account, queue string, first int, lines []byte, dryRun, patient bool) (triage.Imported, error) {
	v := url.Values{}
	if first > 1 {
		v.Set("line", strconv.Itoa(first))
	}
	if dryRun {
		v.Set("dryRun", "true")
	}
	for try := 1; ; try++ {
		var done struct {
			triage.Imported
			Error string `json:"error"`
		}
		err := c.whole(ctx, request{
			method: http.MethodPost, path: []string{"api", "v1", "poison", account, queue, "import"}, query: v,
			body: bytes.NewReader(lines), kind: eventStream, slow: true, kept: true,
		}, &done)
		if busy, ok := errors.AsType[*Error](err); ok && busy.Status == http.StatusTooManyRequests && patient && try < busyTries {
			select {
			case <-ctx.Done():
			case <-time.After(busyWait):
				continue
			}
		}
		if err == nil && done.Error != "" {
			err = errors.New(done.Error)
		}
		return done.Imported, err
	}
}

// batches cuts lines into what one request carries.
type batches struct {
	in   *bufio.Reader
	next int // the line that is read next
	end  bool
}

// read returns some lines and the first one's number, passing over those before from; no lines at the end.
func (b *batches) read(from int) (first int, lines []byte, err error) {
	first = max(from, b.next)
	for n := 0; n < batchLines && len(lines) < batchBytes && !b.end; {
		start := len(lines)
		for long := true; long; {
			part, err := b.in.ReadSlice('\n')
			if b.next >= from {
				lines = append(lines, part...)
			}
			long = errors.Is(err, bufio.ErrBufferFull)
			switch {
			case errors.Is(err, io.EOF):
				b.end = true
			case err != nil && !long:
				return first, nil, err
			}
			if len(lines)-start > poison.MaxLine+1 { // it is refused there
				b.end, long = true, false
			}
		}
		if b.next >= from {
			n++
		}
		b.next++
	}
	return first, lines, nil
}
