package blobstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/qwatch/qwatch/queue"
)

// Config describes a store. The zero value is usable.
type Config struct {
	// Container that the store owns. Default "queue-large-messages".
	Container string
	// KeepContainerMissing stops the container from being created when a body is put into it for the
	// first time.
	KeepContainerMissing bool
	// Endpoint of the Blob service, https://NAME.blob.core.windows.net. Default: derived from the
	// account's queue endpoint.
	Endpoint string
	// Timeout bounds a call with its retries. Default 1 minute.
	Timeout time.Duration
	// TryTimeout bounds one try. Default 30 s.
	TryTimeout time.Duration
}

// WithDefaults returns the configuration with every default filled in.
func (c Config) WithDefaults() Config {
	c.Container = cmp.Or(c.Container, "queue-large-messages")
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	c.TryTimeout = cmp.Or(c.TryTimeout, 30*time.Second)
	return c
}

func (c Config) validate() error {
	var errs []error
	// Containers are named by the same rules as queues.
	if err := queue.CheckName(c.Container); err != nil {
		errs = append(errs, fmt.Errorf("container %q: it is not 3 to 63 lower-case letters, digits and single hyphens", c.Container))
	}
	if c.Timeout < 0 || c.TryTimeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %v or try timeout %v is negative: every call has a deadline", c.Timeout, c.TryTimeout))
	}
	return errors.Join(errs...)
}

// Store keeps bodies as blobs of one container. It is safe for concurrent use.
type Store struct {
	cfg       Config
	account   string // its label
	service   queue.BlobService
	container string // URL
}

var _ queue.BodyChecker = (*Store)(nil)

// New returns a store that signs in as the account does. It makes no request. Errors join every fault
// of the configuration, and say when the account's sign-in is no good for blobs.
func New(account *queue.Account, cfg Config) (*Store, error) {
	cfg = cfg.WithDefaults()
	service, err := account.BlobService(cfg.Endpoint)
	if err := errors.Join(cfg.validate(), err); err != nil {
		return nil, fmt.Errorf("body store: %w", err)
	}
	return &Store{cfg: cfg, account: account.Name(), service: service, container: service.URL + "/" + cfg.Container}, nil
}

// String returns "account/container".
func (s *Store) String() string { return s.account + "/" + s.cfg.Container }

// client returns a client of a URL below the service's.
func (s *Store) client(url string, first ...policy.Policy) (*blockblob.Client, error) {
	o := &blockblob.ClientOptions{ClientOptions: s.service.Options()}
	o.PerCallPolicies = append(o.PerCallPolicies, first...)
	o.Retry = policy.RetryOptions{MaxRetries: 3, TryTimeout: s.cfg.TryTimeout, RetryDelay: 200 * time.Millisecond, MaxRetryDelay: 5 * time.Second}
	return blockblob.NewClientWithNoCredential(url, o)
}

// Put implements queue.BodyStore. The container is created if it is missing.
func (s *Store) Put(ctx context.Context, body []byte) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	address := s.container + "/" + strings.ToLower(rand.Text())
	err := s.upload(ctx, address, body)
	if bloberror.HasCode(err, bloberror.ContainerNotFound) && !s.cfg.KeepContainerMissing {
		if err = s.create(ctx); err == nil {
			err = s.upload(ctx, address, body)
		}
	}
	if err != nil {
		return nil, s.wrap(uploading, err)
	}
	return json.Marshal(address)
}

func (s *Store) upload(ctx context.Context, address string, body []byte) error {
	c, err := s.client(address)
	if err != nil {
		return err
	}
	_, err = c.Upload(ctx, streaming.NopCloser(bytes.NewReader(body)), nil)
	return err
}

// Fetch implements queue.BodyStore.
func (s *Store) Fetch(ctx context.Context, ref json.RawMessage, limit int) ([]byte, error) {
	address, err := s.address(ref)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	c, err := s.client(address)
	if err != nil {
		return nil, s.fetching(err)
	}
	r, err := c.DownloadStream(ctx, nil)
	if err != nil {
		return nil, s.fetching(err)
	}
	body := r.NewRetryReader(ctx, &blob.RetryReaderOptions{MaxRetries: 3})
	defer func() { _ = body.Close() }()
	size := int64(-1)
	if r.ContentLength != nil {
		size = *r.ContentLength
	}
	if size > int64(limit) {
		return nil, s.tooLarge(limit)
	}
	b := bytes.NewBuffer(make([]byte, 0, max(size, 0)+bytes.MinRead))
	n, err := b.ReadFrom(io.LimitReader(body, int64(limit)+1))
	switch {
	case n > int64(limit):
		return nil, s.tooLarge(limit)
	case err != nil:
		return nil, s.fetching(err)
	}
	return b.Bytes(), nil
}

func (s *Store) tooLarge(limit int) error {
	return fmt.Errorf("%w: download a body from %s: it is larger than the limit of %d bytes", queue.ErrUnreadable, s, limit)
}

// Delete implements queue.BodyStore.
func (s *Store) Delete(ctx context.Context, ref json.RawMessage) error {
	address, err := s.address(ref)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	c, err := s.client(address)
	if err != nil {
		return s.wrap("delete a body from", err)
	}
	snapshots := blob.DeleteSnapshotsOptionTypeInclude
	_, err = c.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: &snapshots})
	if bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) {
		return nil
	}
	return s.wrap("delete a body from", err)
}

// Check implements queue.BodyChecker: it asks for a blob that does not exist.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	c, err := s.client(s.container + "/qwatch-check")
	if err != nil {
		return s.wrap("ask", err)
	}
	_, err = c.GetProperties(ctx, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) {
		return nil
	}
	return s.wrap("ask", err)
}

// create creates the container. One that exists already is fine.
func (s *Store) create(ctx context.Context) error {
	c, err := s.client(s.container, createContainer{})
	if err != nil {
		return err
	}
	_, err = c.Upload(ctx, streaming.NopCloser(bytes.NewReader(nil)), nil)
	if bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
		return nil
	}
	return err
}

// createContainer makes an upload of nothing to the container's URL the request that creates it. The
// SDK's own client of containers would add Apache Arrow, 4 MB of it, to the program.
type createContainer struct{}

// Do implements policy.Policy.
func (createContainer) Do(req *policy.Request) (*http.Response, error) {
	r := req.Raw()
	q := r.URL.Query()
	q.Set("restype", "container")
	r.URL.RawQuery = q.Encode()
	for name := range r.Header {
		if strings.EqualFold(name, "x-ms-blob-type") {
			delete(r.Header, name)
		}
	}
	return req.Next()
}
