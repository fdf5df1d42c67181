package queue

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	filePoll      = 3 * time.Second // how often a secret file is looked at, at most
	maxSecretFile = 64 << 10
)

// secretFile is a file with a secret in it that may change at any time.
type secretFile struct {
	path       string
	generation atomic.Int64 // secrets adopted so far
	next       atomic.Int64 // when to look again, in Unix nanoseconds

	mu      sync.Mutex
	info    fs.FileInfo // of what was read last
	content Secret      // what was read last, adopted or not
	failed  bool        // the last look failed, and was logged
}

// openSecretFile reads the file for the first time.
func openSecretFile(path string) (*secretFile, Secret, error) {
	f := &secretFile{path: path}
	content, info, err := readSecret(path)
	if err != nil {
		return nil, "", err
	}
	f.content, f.info = content, info
	f.next.Store(time.Now().Add(filePoll).UnixNano())
	return f, content, nil
}

func readSecret(path string) (Secret, fs.FileInfo, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil {
		return "", nil, err
	}
	b, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	switch content := Secret(strings.TrimSpace(strings.TrimPrefix(string(b), "\uFEFF"))); {
	case err != nil:
		return "", nil, err
	case len(b) > maxSecretFile:
		return "", nil, fmt.Errorf("%s is larger than 64 KiB: it holds no secret", path)
	case content == "":
		return "", nil, errors.New(path + " is empty")
	default:
		return content, info, nil
	}
}

// poll looks at the file when the time has come, and adopts what it says when that changed.
func (f *secretFile) poll(s *signIn) {
	now := time.Now().UnixNano()
	due := f.next.Load()
	if now < due || !f.next.CompareAndSwap(due, now+int64(filePoll)) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		f.failed = false
		return
	}
	f.read(s)
}

// reread reads the file at once, and says whether a secret was adopted since the given generation.
func (f *secretFile) reread(s *signIn, since int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.generation.Load() == since {
		f.read(s)
	}
	return f.generation.Load() > since
}

// read takes in the file. A secret that cannot be used is logged once; the one before stays in use.
func (f *secretFile) read(s *signIn) {
	content, info, err := readSecret(f.path)
	if err != nil {
		if !f.failed {
			s.log.Error("credential file cannot be read; the credential before stays in use", "error", err)
		}
		f.failed = true
		return
	}
	f.failed, f.info = false, info
	if content == f.content {
		return
	}
	f.content = content
	if err := s.adopt(content); err != nil {
		s.log.Error("credential file has a credential that cannot be used; the one before stays in use", "error", err)
		return
	}
	f.generation.Add(1)
	s.log.Info("credential file changed; the new credential is in use")
}
