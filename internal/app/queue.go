package app

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/blobstore"
	"github.com/qwatch/qwatch/queue/encryption"
)

// settingError is a fault of one setting of a queue that only making what it describes can find.
type settingError struct {
	setting string
	err     error
}

// Error implements error.
func (e *settingError) Error() string { return e.setting + ": " + e.err.Error() }

// Unwrap returns the fault.
func (e *settingError) Unwrap() error { return e.err }

// openQueue opens a configured queue with what its settings name. It makes no request.
func openQueue(acct *queue.Account, q config.Queue, o FleetOptions) (*queue.Queue, error) {
	c := queue.Config{
		PoisonQueue:           q.PoisonQueue,
		NoPoison:              q.NoPoison,
		KeepPoisonMissing:     !q.CreatePoisonIfMissing,
		CreateIfMissing:       q.CreateIfMissing,
		Encoding:              q.Encoding,
		PoisonTimeToLive:      q.PoisonTimeToLive,
		TypeHeader:            q.TypeHeader,
		PropagateTraceContext: q.PropagateTraceContext,
		Compress:              q.Compress,
		CompressionThreshold:  q.CompressionThreshold,
		Tracer:                o.Tracer,
	}
	if o.OnSend != nil {
		c.OnSend = o.OnSend(q.Account, q.Name)
	}
	var errs []error
	if l := q.LargeMessages; l != nil {
		store, err := blobstore.New(acct, blobstore.Config{
			Container: l.Container, KeepContainerMissing: !l.CreateContainer, Endpoint: l.Endpoint,
		})
		if err != nil {
			errs = append(errs, &settingError{"largeMessages", err})
		}
		c.BodyStore = store
	}
	if e := q.Encryption; e != nil {
		keys, err := keyring(e)
		if err != nil {
			errs = append(errs, err)
		}
		c.KeyWrapper, c.RequireEncryption = keys, e.Required
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return acct.Queue(q.Name, c)
}

// keyring reads the keys of a queue; without encryption there are none. An error shows nothing of them.
func keyring(e *config.Encryption) (encryption.KeyWrapper, error) {
	if e == nil {
		return nil, nil
	}
	current, err := readKey("encryption", e.Key)
	errs := []error{err}
	older := make([]encryption.KeyWrapper, 0, len(e.OlderKeys))
	for i, k := range e.OlderKeys {
		key, err := readKey(fmt.Sprintf("encryption.olderKeys[%d]", i), k)
		errs = append(errs, err)
		older = append(older, key)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return encryption.Keyring(current, older...), nil
}

func readKey(setting string, k config.Key) (encryption.KeyWrapper, error) {
	b, err := decodeKey(k.KeyFile)
	if err != nil {
		return nil, &settingError{setting + ".keyFile", err}
	}
	key, err := encryption.NewAESKey(k.KeyID, b)
	if err != nil {
		return nil, &settingError{setting + ".keyFile", err}
	}
	return key, nil
}

// decodeKey reads a file with a key in Base64.
func decodeKey(path string) ([]byte, error) {
	const most = 4 << 10
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s does not hold a key in Base64, as openssl rand -base64 32 makes one", path)
	}
	return key, nil
}
