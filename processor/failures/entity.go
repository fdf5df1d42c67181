package failures

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor/internal/table"
)

// Properties of a row.
const (
	propKind           = "Kind" // failure or attempt
	propMessageID      = "MessageId"
	propQueue          = "Queue"
	propBusinessKey    = "BusinessKey"
	propCategory       = "Category"
	propReason         = "Reason"
	propCauses         = "Causes" // JSON
	propPanic          = "Panic"
	propStack          = "Stack"
	propDequeueCount   = "DequeueCount"
	propInsertedAt     = "InsertedAt"
	propDeadLetteredAt = "DeadLetteredAt"
	propTraceParent    = "TraceParent"
	propBodyKind       = "BodyKind" // text or binary
	propBodySize       = "BodySize"
	propBody           = "Body" // then Body2, Body3, …

	propNumber = "Number"
	propAt     = "At"
	propTook   = "TookMilliseconds"
	propError  = "Error"
	propWorker = "Worker"

	kindFailure = "failure"
	kindAttempt = "attempt"
	bodyText    = "text"
	bodyBinary  = "binary"
)

// bodiless are a record's properties without its body.
const bodiless = "PartitionKey,RowKey,Timestamp," + propKind + "," + propMessageID + "," + propQueue + "," + propBusinessKey + "," +
	propCategory + "," + propReason + "," + propCauses + "," + propPanic + "," + propStack + "," + propDequeueCount + "," +
	propInsertedAt + "," + propDeadLetteredAt + "," + propTraceParent

// A property takes 64 KiB; a text is counted in UTF-16.
const (
	maxUnits  = 32 << 10
	maxBinary = 64 << 10
)

func isRecord(row table.Row) bool { return row.Text(propKind) == kindFailure }

// escape makes a key of a name: what the service forbids in keys, and what we use, is written as =XX.
func escape(s string) string {
	const most = 200
	if len(s) > most {
		sum := sha256.Sum256([]byte(s))
		return "=" + hex.EncodeToString(sum[:])
	}
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

// Of each message the first attempts are kept, and of the others the latest: attempts share slots.
const (
	firstSlots = 10
	lastSlots  = 40
)

func slotOf(number int) int {
	if number <= firstSlots {
		return max(0, number)
	}
	return firstSlots + 1 + (number-firstSlots-1)%lastSlots
}

// bySlot returns what is to be kept of attempts: a transaction takes each row once.
func bySlot(attempts []Attempt) map[int]Attempt {
	kept := map[int]Attempt{}
	for _, a := range attempts {
		slot := slotOf(a.Number)
		if b, taken := kept[slot]; !taken || b.Number <= a.Number {
			kept[slot] = a
		}
	}
	return kept
}

func attemptEntity(queue, messageID string, a Attempt) table.Entity {
	e := table.Entity{
		Partition: escape(queue), Key: fmt.Sprintf("%s!%02d", escape(messageID), slotOf(a.Number)),
		Properties: map[string]any{
			propKind: kindAttempt, propNumber: int32(a.Number), propTook: aztables.EDMInt64(a.Took.Milliseconds()),
			propError: cut(a.Error, maxMessage),
		},
	}
	setTime(e.Properties, propAt, a.At)
	setText(e.Properties, propCategory, a.Category, maxMessage)
	setText(e.Properties, propWorker, a.Worker, maxMessage)
	return e
}

func attemptOf(row table.Row) Attempt {
	return Attempt{
		Number: int(row.Int(propNumber)), At: row.Time(propAt), Took: time.Duration(row.Int(propTook)) * time.Millisecond,
		Category: row.Text(propCategory), Error: row.Text(propError), Worker: row.Text(propWorker),
	}
}

func recordEntity(f Failure) table.Entity {
	p := map[string]any{
		propKind: kindFailure, propMessageID: f.MessageID, propQueue: f.Queue, propDequeueCount: int32(f.DequeueCount),
	}
	setText(p, propBusinessKey, f.BusinessKey, maxKey)
	setText(p, propCategory, string(f.Category), maxKey)
	setText(p, propReason, f.Reason, maxReason)
	setText(p, propPanic, f.Panic, maxMessage)
	setText(p, propStack, f.Stack, maxStack)
	setText(p, propTraceParent, f.TraceParent, maxKey)
	setTime(p, propInsertedAt, f.InsertedAt)
	setTime(p, propDeadLetteredAt, f.DeadLetteredAt)
	setCauses(p, f.Causes)
	setBody(p, f.Body)
	return table.Entity{Partition: escape(f.Queue), Key: escape(f.MessageID), Properties: p}
}

func failureOf(row table.Row) Failure {
	f := Failure{
		Queue: row.Text(propQueue), MessageID: row.Text(propMessageID), BusinessKey: row.Text(propBusinessKey),
		Category: poison.Category(row.Text(propCategory)), Reason: row.Text(propReason),
		Panic: row.Text(propPanic), Stack: row.Text(propStack), DequeueCount: int(row.Int(propDequeueCount)),
		InsertedAt: row.Time(propInsertedAt), DeadLetteredAt: row.Time(propDeadLetteredAt), TraceParent: row.Text(propTraceParent),
	}
	if causes := row.Text(propCauses); causes != "" {
		_ = json.Unmarshal([]byte(causes), &f.Causes) // our own text; if it was edited, the rest still tells
	}
	f.Body = bodyOf(row)
	return f
}

// lacking returns what a record has and the one that is there has not.
func lacking(there table.Row, e table.Entity) table.Entity {
	_, hasBody := there.Properties[propBodyKind]
	p := map[string]any{}
	for name, value := range e.Properties {
		if _, has := there.Properties[name]; !has && (!hasBody || !strings.HasPrefix(name, propBody)) {
			p[name] = value
		}
	}
	return table.Entity{Partition: e.Partition, Key: e.Key, Properties: p}
}

// setCauses keeps the outermost causes: as many as a property takes.
func setCauses(p map[string]any, all []Cause) {
	var causes []Cause
	for _, c := range all[:min(len(all), maxCauses)] {
		causes = append(causes, Cause{cut(c.Type, maxMessage/4), cut(c.Message, maxMessage)})
	}
	for ; len(causes) > 0; causes = causes[:len(causes)-1] {
		if b, err := json.Marshal(causes); err == nil && len(b) <= maxUnits {
			p[propCauses] = string(b)
			return
		}
	}
}

func setText(p map[string]any, name, s string, most int) {
	if s != "" {
		p[name] = cut(strings.ToValidUTF8(s, "\uFFFD"), most)
	}
}

func setTime(p map[string]any, name string, t time.Time) {
	if t.Year() > 1600 { // the least the service takes
		p[name] = aztables.EDMDateTime(t.UTC())
	}
}

func setBody(p map[string]any, b *Body) {
	if b == nil {
		return
	}
	data := b.Data[:min(len(b.Data), MaxBody)]
	p[propBodySize] = int32(b.Size)
	if !readable(data) {
		p[propBodyKind] = bodyBinary
		for i := 1; len(data) > 0; i++ {
			n := min(len(data), maxBinary)
			p[bodyPart(i)] = aztables.EDMBinary(data[:n])
			data = data[n:]
		}
		return
	}
	p[propBodyKind] = bodyText
	for i, part := range chunks(string(data), maxUnits) {
		p[bodyPart(i+1)] = part
	}
}

func bodyOf(row table.Row) *Body {
	kind := row.Text(propBodyKind)
	if kind == "" {
		return nil
	}
	b := &Body{Size: int(row.Int(propBodySize)), Data: []byte{}}
	for i := 1; ; i++ {
		switch part := row.Properties[bodyPart(i)].(type) {
		case string:
			b.Data = append(b.Data, part...)
		case aztables.EDMBinary:
			b.Data = append(b.Data, part...)
		default:
			return b
		}
	}
}

func bodyPart(i int) string {
	if i == 1 {
		return propBody
	}
	return fmt.Sprint(propBody, i)
}

// readable says whether a body is text that a table browser shows as it is.
func readable(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, c := range b {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			return false
		}
	}
	return true
}

// chunks cuts a text into parts of so many UTF-16 units at most, between characters.
func chunks(s string, units int) []string {
	var parts []string
	start, n := 0, 0
	for i, r := range s {
		w := utf16.RuneLen(r)
		if n+w > units {
			parts = append(parts, s[start:i])
			start, n = i, 0
		}
		n += w
	}
	if start < len(s) {
		parts = append(parts, s[start:])
	}
	return parts
}
