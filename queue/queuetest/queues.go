package queuetest

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// create makes a queue: 201, or 204 if it is there with the same metadata.
func (s *Server) create(c *call) *failure {
	metadata, f := c.metadata()
	if f != nil {
		return f
	}
	q := c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.exists && slices.Equal(q.metadata, metadata):
		c.status = http.StatusNoContent
	case q.exists:
		return &failure{status: http.StatusConflict, code: "QueueAlreadyExists"}
	case c.now < q.freeAt:
		return &failure{status: http.StatusConflict, code: "QueueBeingDeleted"}
	default:
		q.exists, q.metadata = true, metadata
		q.byID = map[[16]byte]*message{}
		c.status = http.StatusCreated
	}
	return nil
}

// deleteQueue removes a queue and its messages. Its name is taken for 30 seconds more.
func (s *Server) deleteQueue(c *call) *failure {
	q := c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.exists {
		return queueNotFound()
	}
	q.exists, q.freeAt = false, c.now+deletionDelay.Microseconds()
	q.metadata, q.policies, q.order, q.byID = nil, nil, nil, nil
	c.status = http.StatusNoContent
	return nil
}

// properties answers the metadata and the approximate count.
func (s *Server) properties(c *call) *failure {
	q := c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.exists {
		return queueNotFound()
	}
	c.status = http.StatusOK
	c.header("X-Ms-Approximate-Messages-Count", strconv.Itoa(len(q.byID)))
	for _, m := range q.metadata {
		c.header(http.CanonicalHeaderKey(metadataPrefix+m.key), m.value)
	}
	return nil
}

func (s *Server) setMetadata(c *call) *failure {
	metadata, f := c.metadata()
	if f != nil {
		return f
	}
	q := c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.exists {
		return queueNotFound()
	}
	q.metadata = metadata
	c.status = http.StatusNoContent
	return nil
}

const metadataPrefix = "x-ms-meta-"

// metadata reads the request's metadata headers, in order of their names.
func (c *call) metadata() ([]pair, *failure) {
	var all []pair
	size := 0
	for k, v := range c.req.Header {
		if len(k) < len(metadataPrefix) || !strings.EqualFold(k[:len(metadataPrefix)], metadataPrefix) {
			continue
		}
		name := k[len(metadataPrefix):]
		if c.socket {
			name = strings.ToLower(name)
		}
		if name == "" {
			return nil, &failure{status: http.StatusBadRequest, code: "EmptyMetadataKey"}
		}
		if !identifier(name) {
			return nil, &failure{status: http.StatusBadRequest, code: "InvalidMetadata"}
		}
		value := strings.Join(v, ",")
		size += len(name) + len(value)
		all = append(all, pair{name, value})
	}
	if size > maxMetadata {
		return nil, &failure{status: http.StatusBadRequest, code: "MetadataTooLarge"}
	}
	slices.SortFunc(all, func(a, b pair) int { return cmp.Compare(strings.ToLower(a.key), strings.ToLower(b.key)) })
	return all, nil
}

// identifier reports whether name is a C# identifier, as metadata names must be.
func identifier(name string) bool {
	for i := range len(name) {
		switch b := name[i]; {
		case b == '_', 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z':
		case '0' <= b && b <= '9' && i > 0:
		default:
			return false
		}
	}
	return name != ""
}
