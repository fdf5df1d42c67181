package poison

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/qwatch/qwatch/internal/plainjson"
	"github.com/qwatch/qwatch/queue"
)

// ExportFormat is the first property of every exported line.
const ExportFormat = "qwatch-poison/1"

// MaxLine is how long an exported line may be, in bytes.
const MaxLine = 1 << 20

// Exported is a line of an export: JSON, with the entry for people and tools to look at, and the poison
// copy's exact wire text, which alone is what an import puts back.
type Exported struct {
	Format string `json:"format"`
	Entry
	Text *string `json:"text"`
}

// Line returns the entry as a line of an export, its end included. The entry must have its message.
func (e *Entry) Line() ([]byte, error) {
	if e.message == nil {
		return nil, fmt.Errorf("export message %s: the entry came without its message", e.MessageID)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(Exported{Format: ExportFormat, Entry: *e, Text: &e.message.Text}); err != nil {
		return nil, fmt.Errorf("export message %s: %w", e.MessageID, err)
	}
	return b.Bytes(), nil
}

// ParseLine reads a line of an export. It refuses what an import could not put back as it was.
func ParseLine(line []byte) (Exported, error) {
	var x Exported
	if len(line) > MaxLine {
		return x, fmt.Errorf("it is longer than %d bytes", MaxLine)
	}
	if !utf8.Valid(line) {
		return x, errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if err := d.Decode(&x); err != nil {
		return x, errors.New("it is not a line of an export: " + shape(err))
	}
	if _, err := d.Token(); err == nil {
		return x, errors.New("there is more than one JSON value on it")
	}
	if err := plainjson.Unambiguous(line); err != nil {
		return x, err
	}
	switch {
	case x.Format == "":
		return x, fmt.Errorf("it is not a line of an export: it does not say %q", ExportFormat)
	case x.Format != ExportFormat:
		return x, fmt.Errorf("its format is %.40q, which is not known to this version, which knows %s", x.Format, ExportFormat)
	case x.Text == nil:
		return x, errors.New(`it has no "text", the message itself`)
	}
	return x, queue.CheckText(*x.Text)
}

// shape tells what is wrong with JSON without quoting it.
func shape(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fmt.Sprintf("%q is not a %s", wrong.Field, wrong.Type)
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("it is not JSON, at byte %d", syntax.Offset)
	}
	return "it is not JSON of that kind"
}

// Importable says why a message cannot be imported to the poison queue of the queue of that name; nil when
// it can.
func (x Exported) Importable(queue string) error {
	switch {
	case x.Text == nil:
		return errors.New("there is no message in it")
	case x.Queue != "" && x.Queue != queue:
		return fmt.Errorf("it is a message of queue %.80q, not of %s: import it there", x.Queue, queue)
	}
	return nil
}

// Import puts an exported message on the poison queue of q again, exactly as it lay there. It may put it
// there twice, which is one entry if it has a record. A message of another queue is refused.
func Import(ctx context.Context, q *queue.Queue, x Exported) error {
	if q.Poison() == nil {
		return fmt.Errorf("import to %s: it has no poison queue", q)
	}
	if err := x.Importable(q.Name()); err != nil {
		return err
	}
	ttl := q.Config().PoisonTimeToLive
	_, err := q.Poison().SendText(ctx, *x.Text, queue.SendOptions{TimeToLive: ttl, AllowDuplicates: true})
	return err
}
