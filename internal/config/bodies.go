package config

import (
	"fmt"
	"net/url"
)

// LargeMessages is a container in the Blob storage of the queue's account.
type LargeMessages struct {
	// Container that qwatch owns, named as queues are. Default "queue-large-messages".
	Container string `yaml:"container"`
	// CreateContainer creates it when the first body is put into it. Default true.
	CreateContainer bool `yaml:"createContainer"`
	// Endpoint of the Blob service. Default: told from the account's queue endpoint.
	Endpoint string `yaml:"endpoint" cfg:"omitempty"`
}

func (l *LargeMessages) setDefaults() {
	*l = LargeMessages{Container: "queue-large-messages", CreateContainer: true}
}

const defaultCompressionThreshold = 1024

// Encryption is client-side encryption with AES keys that lie in files.
type Encryption struct {
	Key `yaml:",inline"`
	// OlderKeys are what messages may still be encrypted with; they encrypt nothing. Default: none.
	OlderKeys []Key `yaml:"olderKeys" cfg:"omitempty"`
	// Required refuses to read messages that are not encrypted. Default false.
	Required bool `yaml:"required"`
}

// Key is a key-encryption key.
type Key struct {
	// KeyFile holds the Base64 of 16, 24 or 32 bytes. Required; read at the start and at a reload.
	KeyFile string `yaml:"keyFile" cfg:"path"`
	// KeyID is what messages name the key by. Required.
	KeyID string `yaml:"keyID"`
}

// settleCompression fills the threshold in, and drops one that a default gave a queue without compression.
func (s *Settings) settleCompression() {
	switch {
	case !s.Compress:
		s.CompressionThreshold = 0
	case s.CompressionThreshold == 0:
		s.CompressionThreshold = defaultCompressionThreshold
	}
}

// bodies checks what settings about bodies mean to one another.
func (v *validator) bodies(key string, q *Queue) {
	if at := key + ".compressionThreshold"; !q.Compress && v.cfg.Set(at) {
		v.say(at, "has no effect without compress: true; set that as well, or remove this")
	}
	q.settleCompression()
	e, key := q.Encryption, key+".encryption"
	if e == nil {
		return
	}
	if file := key + ".keyFile"; v.cfg.Set(file) && e.KeyID != "" && !v.cfg.Set(key+".keyID") {
		v.say(file, "is another key, but its id is the one of the default (line %d); set keyID as well", v.line(key+".keyID"))
	}
	ids := map[string]bool{}
	v.key(key, e.Key, ids)
	for i, k := range e.OlderKeys {
		v.key(fmt.Sprintf("%s.olderKeys[%d]", key, i), k, ids)
	}
}

func (v *validator) key(key string, k Key, ids map[string]bool) {
	if k.KeyFile == "" {
		v.say(key+".keyFile", "is missing; it is the file with the Base64 of a key of 16, 24 or 32 bytes")
	}
	switch {
	case k.KeyID == "":
		v.say(key+".keyID", "is missing; it is what messages name the key by, alike in every client of the queue")
	case ids[k.KeyID]:
		v.say(key+".keyID", "is the id of another key as well; a new key takes a new id")
	}
	ids[k.KeyID] = true
}

func (v *validator) largeMessages(key string, l *LargeMessages) {
	if l == nil {
		return
	}
	if at := key + ".container"; v.set(at) {
		// Containers are named by the same rules as queues.
		if problem := nameFault(l.Container); problem != "" {
			v.say(at, "%s is not the name of a container: %s", v.shown(at, l.Container), problem)
		}
	}
	v.serviceEndpoint(key+".endpoint", l.Endpoint)
}

// serviceEndpoint checks the endpoint of a service beside the queues.
func (v *validator) serviceEndpoint(at, endpoint string) {
	if !v.set(at) {
		return
	}
	if problem := urlFault(endpoint); problem != "" {
		v.say(at, "%s", problem)
		return
	}
	if u, err := url.Parse(endpoint); err == nil && (u.RawQuery != "" || u.User != nil || u.Fragment != "") {
		v.say(at, "has more than scheme, host and account; end it there: the account's own sign-in is used")
	}
}
