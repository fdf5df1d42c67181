package triage

import (
	"context"

	"github.com/qwatch/qwatch/queue"
)

// MaxShown is how many bytes of bodies an answer that is made as a whole holds, about.
const MaxShown = 16 << 20

// Room is the memory that bodies may take. The zero value bounds nothing but one answer.
type Room struct {
	// Unpack waits until n bytes may be unpacked; done is called when they were told. Nil: at once.
	Unpack func(ctx context.Context, n int) (done func(), err error)
	// Hold says whether n more bytes may be kept for an answer. Nil: they may.
	Hold func(n int) bool
}

func (r Room) unpack(ctx context.Context, n int) (done func(), err error) {
	if n == 0 || r.Unpack == nil {
		return func() {}, nil
	}
	return r.Unpack(ctx, n)
}

// DescribeAll describes what one peek saw: with bodies, one unpacked at a time, as far as MaxShown and the room go. Of
// the others it says that they were left out. Errors: the room's.
func DescribeAll(ctx context.Context, ms []*queue.Message, body bool, room Room) ([]Message, error) {
	out := make([]Message, 0, len(ms))
	total := 0
	for _, m := range ms {
		if !body || total > 0 && total+m.PackedSize() > MaxShown {
			d := Describe(m, false)
			d.Partial = body
			out = append(out, d)
			continue
		}
		done, err := room.unpack(ctx, m.PackedSize())
		if err != nil {
			return out, err
		}
		d := Describe(m, true)
		switch n := d.Size(); {
		case total > 0 && total+n > MaxShown, room.Hold != nil && !room.Hold(n):
			d.Payload, d.Partial = Payload{}, true
		default:
			total += n
		}
		done()
		out = append(out, d)
	}
	return out, nil
}

// A large body that JSON would write much longer than it is, as it does control characters, is written as Base64.
const (
	largeText = 1 << 20
	longer    = 3 // halves
)

// Size is how many bytes the body takes in JSON, about.
func (p Payload) Size() int {
	if p.Body != nil {
		return escaped(*p.Body)
	}
	return len(p.Body64) / 3 * 4
}

// escaped is how long a text is in JSON.
func escaped[T string | []byte](text T) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t', c == '\b', c == '\f':
			n++
		case c < ' ':
			n += 5
		case c == 0xE2 && i+2 < len(text) && text[i+1] == 0x80 && text[i+2]&^1 == 0xA8: // U+2028 and U+2029
			n += 3
		}
	}
	return n
}
