package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const eventStream = "application/jsonl"

// maxEvent is how long a line of a stream may be: an exported message, or a body, as JSON may have to
// write it.
const maxEvent = 128 << 20

// stream reads an answer of events, one a line, and tells each to one, which says whether it may be the last.
func stream[E any](ctx context.Context, c *Client, r io.Reader, one func(E) (last bool, err error)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxEvent)
	ended := false
	for lines.Scan() {
		var e E
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			if cut := len(lines.Bytes()); cutOff(err, cut) && !lines.Scan() {
				return c.cut(ctx)
			}
			return c.strange()
		}
		var err error
		if ended, err = one(e); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return c.strange()
	case err != nil || !ended || ctx.Err() != nil:
		return c.cut(ctx)
	}
	return nil
}

// cutOff says whether JSON of that length is only the beginning of some.
func cutOff(err error, length int) bool {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	return ok && syntax.Offset == int64(length)
}

// cut is why an answer has no end: this side's reason, if it has one.
func (c *Client) cut(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.brokeOff()
}

// strange is an answer that is not qwatch's.
func (c *Client) strange() error {
	return fmt.Errorf("read the answer of %s: it is not what qwatch answers; is it qwatch's main listener, and of this version?", c)
}

// brokeOff is an answer that came to no end.
func (c *Client) brokeOff() error {
	return fmt.Errorf("the answer of %s broke off: it, or what is between, ended meanwhile; run it again when it is back", c)
}
