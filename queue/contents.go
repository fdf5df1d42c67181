package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// Contents is a fingerprint of what a message of a poison queue was before it was dead-lettered: its body, headers,
// trace context and whatever else came with it, but nothing of the record, nor of how the copy is packed. Copies of
// one message have the same, however each was made to fit. A body that was in the body store when it was first sent
// is told by its reference. Sure says whether all of it could be read; where it could not, copies may seem to differ.
//
// It must not run while somebody else reads the message.
func (m *Message) Contents() (sum [sha256.Size]byte, sure bool) {
	h := sha256.New()
	part := func(name string, b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write([]byte(name)) // writing to a hash does not fail
		h.Write(n[:])
		h.Write(b)
	}
	if m.env == nil || m.env.Record == nil || m.env.Record.Verbatim && m.Err == nil && !m.packed {
		whole := m.Body
		if m.env == nil || m.env.Record == nil {
			whole = []byte(m.Text)
		}
		part("text", whole)
		return [sha256.Size]byte(h.Sum(nil)), true
	}
	e := m.env
	name := "body"
	if e.Record.Verbatim {
		name = "text"
	} else {
		for _, k := range slices.Sorted(maps.Keys(e.Headers)) {
			part("header", []byte(k))
			part("value", []byte(e.Headers[k]))
		}
		part("traceparent", []byte(e.TraceParent))
		part("tracestate", []byte(e.TraceState))
		for _, f := range e.unknown {
			part("property", []byte(f.name))
			part("value", f.raw)
		}
	}
	body, err := m.Body, m.Err
	if m.packed {
		body, err = e.body(m.q.cfg.MaxBodyBytes)
	}
	var away *absence
	switch {
	case e.form == bodyBlob && e.Record.Packed == "":
		part(e.encoding+"blob", e.payload)
		sure = true
	case err == nil:
		part(name, body)
		sure = true
	default: // what the copy has is all there is
		part(e.encoding+"payload", e.payload)
		sure = e.Record.Packed == "" && !errors.As(err, &away)
	}
	return [sha256.Size]byte(h.Sum(nil)), sure
}
