package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/qwatch/qwatch/queue/encryption"
)

// Limits of the service.
const (
	MaxTextBytes     = 64 << 10           // a message's text, as it goes on the wire
	MaxReceive       = 32                 // messages one receive or peek returns
	MinVisibility    = time.Second        // shortest lease
	MaxVisibility    = 7 * 24 * time.Hour // longest lease and longest delay
	DefaultTTL       = 7 * 24 * time.Hour // what the service gives a message sent without one
	maxPoisonedName  = 63 - len(poisonSuffix)
	poisonSuffix     = "-poison"
	defaultTypeField = "message-type"
)

// Never is the time to live of a message that does not expire.
const Never time.Duration = -1

// Config describes one queue. The zero value is usable.
type Config struct {
	// PoisonQueue is where dead-lettered messages go. Default: the queue's name + "-poison".
	// A name over 56 characters must set it, or NoPoison.
	PoisonQueue string
	// NoPoison declares a queue without a poison queue, such as a poison queue itself.
	NoPoison bool
	// KeepPoisonMissing stops the poison queue from being created when first needed.
	KeepPoisonMissing bool
	// CreateIfMissing creates the queue when an operation finds it missing. Default false.
	CreateIfMissing bool
	// Encoding of the wire text. Default EncodingNone.
	Encoding Encoding
	// VisibilityTimeout is the lease a Receive takes that does not say. Default 30 s.
	VisibilityTimeout time.Duration
	// PoisonTimeToLive is how long dead-lettered messages are kept. Default (0) and Never: for ever.
	PoisonTimeToLive time.Duration
	// TypeHeader is the header that carries a message's type. Default "message-type".
	TypeHeader string
	// PropagateTraceContext sends the trace context found in the context (see ContextWithTrace)
	// along with each message, in an envelope.
	PropagateTraceContext bool
	// Serializer reads and writes typed bodies. Default JSON.
	Serializer Serializer
	// MaxBodyBytes bounds what a compressed body may decompress to, and what is fetched from the
	// BodyStore. Default 16 MiB.
	MaxBodyBytes int
	// Compress gzips bodies of at least CompressionThreshold bytes, where that makes the message as it
	// goes on the wire smaller. Compressed bodies are read in any case.
	Compress bool
	// CompressionThreshold is in bytes of what the serializer wrote. Default 1 KiB.
	CompressionThreshold int
	// BodyStore keeps the bodies of messages that would not fit the wire's 64 KiB, and fetches them
	// when such a message is received. Every client of the queue needs the same store. Default: none;
	// such a send is ErrTooLarge.
	BodyStore BodyStore
	// BodyStoreThreshold sends bodies of at least this many bytes to the BodyStore as well. Default:
	// only those that would not fit.
	BodyStoreThreshold int
	// KeyWrapper turns on client-side encryption: every message is encrypted with a key of its own, which
	// travels with it, wrapped by this. Default: none; an encrypted message then cannot be read.
	KeyWrapper encryption.KeyWrapper
	// RequireEncryption refuses to read messages that are not encrypted. Default: they are read, as the
	// .NET SDK does.
	RequireEncryption bool
	// OnSend is called after each message the service accepted. It must be fast and safe for concurrent use.
	OnSend func()
	// Tracer follows sends, receives, settlements and renewals. Default: none.
	Tracer Tracer
}

// WithDefaults returns the configuration with every default of the named queue filled in.
func (c Config) WithDefaults(name string) Config {
	if c.PoisonQueue == "" && !c.NoPoison {
		c.PoisonQueue = name + poisonSuffix
	}
	if c.Encoding == 0 {
		c.Encoding = EncodingNone
	}
	if c.VisibilityTimeout == 0 {
		c.VisibilityTimeout = 30 * time.Second
	}
	if c.PoisonTimeToLive == 0 {
		c.PoisonTimeToLive = Never
	}
	if c.TypeHeader == "" {
		c.TypeHeader = defaultTypeField
	}
	if c.Serializer == nil {
		c.Serializer = JSON{}
	}
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = 16 << 20
	}
	if c.Compress && c.CompressionThreshold == 0 {
		c.CompressionThreshold = 1 << 10
	}
	return c
}

func (c Config) validate(name string) error {
	var errs []error
	if err := CheckName(name); err != nil {
		errs = append(errs, err)
	}
	switch {
	case c.NoPoison && c.PoisonQueue != "":
		errs = append(errs, errors.New("both NoPoison and PoisonQueue are set: choose one"))
	case c.NoPoison:
	case c.PoisonQueue == name+poisonSuffix && len(name) > maxPoisonedName:
		errs = append(errs, fmt.Errorf("queue name %q has %d characters: over %d its default poison queue %q would pass the service's limit of 63; set the poison queue's name",
			name, len(name), maxPoisonedName, c.PoisonQueue))
	case c.PoisonQueue == name:
		errs = append(errs, fmt.Errorf("poison queue %q is the queue itself: name another", name))
	default:
		if err := CheckName(c.PoisonQueue); err != nil {
			errs = append(errs, fmt.Errorf("poison queue: %w", err))
		}
	}
	if c.Encoding < EncodingNone || c.Encoding > EncodingAuto {
		errs = append(errs, fmt.Errorf("encoding %d is not one of none, base64, auto", c.Encoding))
	}
	if err := checkVisibility("visibility timeout", c.VisibilityTimeout, MinVisibility); err != nil {
		errs = append(errs, err)
	}
	if c.PoisonTimeToLive != Never && c.PoisonTimeToLive < time.Second {
		errs = append(errs, fmt.Errorf("poison time to live %v is not at least 1s, nor -1 for never", c.PoisonTimeToLive))
	}
	if c.MaxBodyBytes < 0 {
		errs = append(errs, fmt.Errorf("the limit of %d body bytes is negative", c.MaxBodyBytes))
	}
	return errors.Join(append(errs, c.validateBodies()...)...)
}

func (c Config) validateBodies() (errs []error) {
	switch {
	case c.CompressionThreshold < 0:
		errs = append(errs, fmt.Errorf("the compression threshold of %d bytes is negative", c.CompressionThreshold))
	case c.CompressionThreshold > 0 && !c.Compress:
		errs = append(errs, errors.New("a compression threshold is set, but compression is not turned on: set Compress, or remove it"))
	}
	switch {
	case c.BodyStoreThreshold < 0:
		errs = append(errs, fmt.Errorf("the body store's threshold of %d bytes is negative", c.BodyStoreThreshold))
	case c.BodyStoreThreshold > 0 && c.BodyStore == nil:
		errs = append(errs, errors.New("a threshold for a body store is set, but there is no body store: set BodyStore, or remove it"))
	}
	if c.RequireEncryption && c.KeyWrapper == nil {
		errs = append(errs, errors.New("encryption is required, but there is no key: set KeyWrapper"))
	}
	return errs
}

// checkVisibility checks what the service takes for a visibility timeout: whole seconds from least to 7 days.
func checkVisibility(what string, d, least time.Duration) error {
	switch {
	case d < least || d > MaxVisibility:
		return fmt.Errorf("%s %v is outside %v to 7 days", what, d, least)
	case d%time.Second != 0:
		return fmt.Errorf("%s %v is not in whole seconds", what, d)
	default:
		return nil
	}
}
