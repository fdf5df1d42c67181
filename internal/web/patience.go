package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// An upload is the body of a request that may take its time, as long as something comes: it fails when nothing
// does for streamPause, and when its context ends.
type upload struct {
	ctx  context.Context
	w    http.ResponseWriter
	body io.Reader
	stop func() bool
}

// errSilent is why an upload is given up.
var errSilent = errors.New("nothing came from the client for " + streamPause.String())

// uploading returns r's body; end is to be called when no more is read of it.
func uploading(ctx context.Context, w http.ResponseWriter, r *http.Request) (u *upload, end func()) {
	u = &upload{ctx: ctx, w: w, body: r.Body}
	u.stop = context.AfterFunc(ctx, func() { u.until(time.Unix(1, 0)) })
	return u, func() {
		u.stop()
		u.until(time.Now().Add(streamPause)) // for what the server passes over
	}
}

// until sets when a read fails. Where there are no such deadlines nothing is read from afar.
func (u *upload) until(t time.Time) {
	_ = http.NewResponseController(u.w).SetReadDeadline(t)
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	deadline := time.Now().Add(streamPause)
	u.until(deadline)
	if err := u.ctx.Err(); err != nil { // it may have ended before the deadline was set
		return 0, err
	}
	n, err := u.body.Read(p)
	switch {
	case err == nil || errors.Is(err, io.EOF):
		u.until(time.Time{}) // the connection is watched while the lines are put back, however long that takes
	case errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(deadline): // which ends the context as well
		err = errSilent
	case u.ctx.Err() != nil:
		err = u.ctx.Err()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(*net.OpError)):
		err = left(err)
	}
	return n, err
}
