package cloudevents

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
)

// maxEvents bounds the events of one message. 64 KiB hold fewer; a body from a store may hold more.
const maxEvents = 10_000

// Parse reads a message's body: one event, or a JSON array of them, each as a CloudEvent 1.0 in JSON or
// in Event Grid's schema. It is what Handler reads by, for one's own loop or a batch. Every event is
// checked by the specification's rules; the error tells all that is wrong with the first one that
// breaks them, and quotes nothing of it but id and type.
//
// An event of Event Grid's schema becomes a CloudEvent as Event Grid itself maps them: topic is the
// source, eventType the type, eventTime the time, and dataVersion and metadataVersion are the extensions
// dataversion and metadataversion.
func Parse(body []byte) ([]event.Event, error) {
	body = bytes.TrimPrefix(bytes.TrimSpace(body), []byte("\xef\xbb\xbf"))
	if body = bytes.TrimSpace(body); len(body) == 0 || body[0] != '[' {
		e, err := parseOne(body)
		if err != nil {
			return nil, err
		}
		return []event.Event{*e}, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, notJSON(err)
	}
	if len(list) > maxEvents {
		return nil, fmt.Errorf("the batch has %d events: more than %d", len(list), maxEvents)
	}
	events := make([]event.Event, 0, len(list))
	for i, raw := range list {
		e, err := parseOne(raw)
		if err != nil {
			return nil, fmt.Errorf("event %d of the batch of %d: %w", i+1, len(list), err)
		}
		events = append(events, *e)
	}
	return events, nil
}

func notJSON(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("the body is not an event: it is not valid JSON, at byte %d", syntax.Offset)
	}
	return errors.New("the body is not an event: it is not a JSON object")
}

func parseOne(raw []byte) (*event.Event, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, notJSON(err)
	}
	if all == nil {
		return nil, errors.New("the body is not an event: it is not a JSON object")
	}
	p := &parser{members: all}
	switch {
	case p.has("specversion"):
		p.cloudEvent()
	case p.has("eventType") && p.has("eventTime"):
		p.eventGrid()
	default:
		return nil, errors.New("the body is not an event: it has neither a specversion, as a CloudEvent, nor eventType and eventTime, as Event Grid's schema")
	}
	return p.finish()
}

// parser builds an event from the members of a JSON object.
type parser struct {
	members map[string]json.RawMessage
	event   event.Event
	faults  []string
}

// has says whether a member is there. A null attribute is one that is not.
func (p *parser) has(name string) bool {
	raw, ok := p.members[name]
	return ok && string(raw) != "null"
}

func (p *parser) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// text takes a member that is a string, and gives it to set if it is there.
func (p *parser) text(name string, set func(string)) {
	if p.has(name) {
		var s string
		if json.Unmarshal(p.members[name], &s) != nil {
			p.fault("%s is not a string", name)
		} else {
			set(s)
		}
	}
	delete(p.members, name)
}

// need takes a member that is a string and must be there.
func (p *parser) need(name string, set func(string)) {
	if !p.has(name) {
		p.fault("%s is missing", name)
	}
	p.text(name, func(s string) {
		if strings.TrimSpace(s) == "" {
			p.fault("%s is empty", name)
		}
		set(s)
	})
}

// time takes a member that is a time by RFC 3339.
func (p *parser) time(name string) {
	p.text(name, func(s string) {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			p.fault("%s is not a time by RFC 3339", name)
			return
		}
		p.event.SetTime(t)
	})
}

func (p *parser) cloudEvent() {
	version := ""
	p.text("specversion", func(s string) { version = s })
	if version != event.CloudEventsVersionV1 {
		p.fault("specversion is not 1.0")
	}
	e := &p.event
	e.SetSpecVersion(event.CloudEventsVersionV1)
	p.need("id", e.SetID)
	p.need("source", e.SetSource)
	p.need("type", e.SetType)
	p.time("time")
	p.text("subject", e.SetSubject)
	p.text("dataschema", e.SetDataSchema)
	p.text("datacontenttype", e.SetDataContentType)
	p.data()
	for _, name := range slices.Sorted(maps.Keys(p.members)) {
		p.extension(name)
	}
}

// data reads data and data_base64.
func (p *parser) data() {
	raw, has := p.members["data"]
	binary := p.has("data_base64")
	switch {
	case has && binary:
		p.fault("there are both data and data_base64")
	case binary:
		var s string
		if json.Unmarshal(p.members["data_base64"], &s) != nil {
			p.fault("data_base64 is not a string")
			break
		}
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			p.fault("data_base64 is not Base64")
		}
		p.event.DataEncoded, p.event.DataBase64 = b, true
	case !has:
	case isJSON(p.event.DataMediaType()):
		p.event.DataEncoded = raw
	default:
		var s string
		if string(raw) != "null" && json.Unmarshal(raw, &s) != nil {
			p.fault("data are not a string, though datacontenttype is not JSON")
		}
		p.event.DataEncoded = []byte(s)
		if string(raw) == "null" {
			p.event.DataEncoded = nil
		}
	}
	delete(p.members, "data")
	delete(p.members, "data_base64")
}

// extension reads an extension attribute: a boolean, a 32-bit integer, or a string.
func (p *parser) extension(name string) {
	raw := p.members[name]
	if !event.IsExtensionNameValid(name) || strings.ToLower(name) != name {
		p.fault("an attribute's name is not made of lower-case letters and digits")
		return
	}
	var v any
	switch c := raw[0]; {
	case c == 'n':
		return
	case c == '"':
		var s string
		_ = json.Unmarshal(raw, &s) // it was read before
		v = s
	case c == 't', c == 'f':
		v = c == 't'
	case c == '{', c == '[':
		p.fault("extension %s is neither a boolean, an integer nor a string", short(name))
		return
	default:
		n, err := strconv.ParseInt(string(raw), 10, 32)
		if err != nil {
			p.fault("extension %s is a number, but not an integer of 32 bits", short(name))
			return
		}
		v = int32(n)
	}
	p.event.SetExtension(name, v)
}

// finish returns the event, or all that is wrong with it.
func (p *parser) finish() (*event.Event, error) {
	if len(p.faults) == 0 { // what is missing already is not told twice
		if bad, ok := errors.AsType[event.ValidationError](p.event.Validate()); ok {
			for _, name := range slices.Sorted(maps.Keys(bad)) {
				p.fault("%s is not valid", short(name))
			}
		}
	}
	if len(p.faults) == 0 {
		return &p.event, nil
	}
	what := "the event"
	if p.event.ID() != "" || p.event.Type() != "" {
		what = label(&p.event)
	}
	return nil, fmt.Errorf("%s breaks the rules: %s", what, strings.Join(p.faults, "; "))
}
