package config

import (
	"strings"
	"time"
)

// BusinessKey says what names the business operation of a message: exactly one of Header and JSON is set.
type BusinessKey struct {
	// Header of the message that holds it.
	Header string `yaml:"header" cfg:"omitempty"`
	// JSON is a pointer (RFC 6901) to it in a JSON body, such as /order/id.
	JSON string `yaml:"json" cfg:"omitempty"`
}

// FailureRecords is a table in the Table storage of the queue's account.
type FailureRecords struct {
	// Table that holds them, 3 to 63 letters and digits. Default "queuefailures".
	Table string `yaml:"table"`
	// CreateTable creates it before the first record. Default true.
	CreateTable bool `yaml:"createTable"`
	// MaxBody is up to how many bytes of a message's body are kept, 0 to 262144. Default 0: none.
	MaxBody int `yaml:"maxBody"`
	// Endpoint of the Table service. Default: told from the account's queue endpoint.
	Endpoint string `yaml:"endpoint" cfg:"omitempty"`
}

func (f *FailureRecords) setDefaults() {
	*f = FailureRecords{Table: "queuefailures", CreateTable: true}
}

// Idempotency is a table of the business keys that are done, in the Table storage of the queue's account.
type Idempotency struct {
	// Table that holds them, 3 to 63 letters and digits. Default "queuekeys".
	Table string `yaml:"table"`
	// CreateTable creates it before the first key. Default true.
	CreateTable bool `yaml:"createTable"`
	// Lease is how long a worker that dies blocks its key, 1s to 7d. Default 1m.
	Lease time.Duration `yaml:"lease"`
	// Scope keeps equal keys apart that mean different operations. Default "": the storage account's and the queue's names.
	Scope string `yaml:"scope" cfg:"omitempty"`
	// Endpoint of the Table service. Default: told from the account's queue endpoint.
	Endpoint string `yaml:"endpoint" cfg:"omitempty"`
}

func (i *Idempotency) setDefaults() {
	*i = Idempotency{Table: "queuekeys", CreateTable: true, Lease: time.Minute}
}

const (
	maxRecordBody = 256 << 10
	maxClaimLease = 7 * 24 * time.Hour
)

// records checks each setting of what is kept about messages by itself.
func (v *validator) records(key string, c *Consumer) {
	if b := c.BusinessKey; b != nil {
		if at := key + ".businessKey.header"; b.Header != "" && !isToken(b.Header) {
			v.say(at, "%s is not a header name; use letters, digits and hyphens", v.shown(at, b.Header))
		}
		if at := key + ".businessKey.json"; b.JSON != "" && !strings.HasPrefix(b.JSON, "/") {
			v.say(at, "%s is not a JSON pointer; begin it with a slash, such as /order/id", v.shown(at, b.JSON))
		}
	}
	if f := c.FailureRecords; f != nil {
		at := key + ".failureRecords"
		v.table(at+".table", f.Table)
		v.serviceEndpoint(at+".endpoint", f.Endpoint)
		if f.MaxBody < 0 || f.MaxBody > maxRecordBody {
			v.say(at+".maxBody", "%s is outside 0 to %d bytes", v.number(at+".maxBody", f.MaxBody), maxRecordBody)
		}
	}
	if i := c.Idempotency; i != nil {
		at := key + ".idempotency"
		v.table(at+".table", i.Table)
		v.serviceEndpoint(at+".endpoint", i.Endpoint)
		v.atLeast(at+".lease", i.Lease, time.Second)
		if i.Lease > maxClaimLease {
			v.say(at+".lease", "%s is longer than 7d", v.number(at+".lease", i.Lease))
		}
	}
}

// keyed checks what the business key means to the other settings.
func (v *validator) keyed(key string, c *Consumer) {
	switch b := c.BusinessKey; {
	case b == nil && c.Idempotency != nil:
		v.say(key+".idempotency", "needs businessKey beside it, which says what names a message's operation")
	case b == nil:
	case b.Header == "" && b.JSON == "":
		v.say(key+".businessKey", "says nothing; set header, or json with a pointer such as /order/id")
	case b.Header != "" && b.JSON != "":
		v.say(key+".businessKey.json", "stands beside header (line %d); keep one", v.line(key+".businessKey.header"))
	}
}

func (v *validator) table(at, name string) {
	if !v.set(at) {
		return
	}
	letters := strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789") == ""
	if len(name) < 3 || len(name) > 63 || !letters || name[0] >= '0' && name[0] <= '9' {
		v.say(at, "%s is not the name of a table: 3 to 63 letters and digits, a letter first", v.shown(at, name))
	}
}
