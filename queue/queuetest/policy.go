package queuetest

import (
	"encoding/xml"
	"net/http"
)

// policyEntry is a stored access policy.
type policyEntry struct{ id, start, expiry, permissions string }

const maxPolicies = 5

// policy returns the queue's stored access policy of that id.
func (c *call) policy(id string) (policyEntry, bool) {
	if c.q == nil {
		return policyEntry{}, false
	}
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	for _, p := range c.q.policies {
		if p.id == id {
			return p, true
		}
	}
	return policyEntry{}, false
}

// policies answers the stored access policies.
func (s *Server) policies(c *call) *failure {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if !c.q.exists {
		return queueNotFound()
	}
	c.status = http.StatusOK
	b := append(c.out, prolog+"<SignedIdentifiers>"...)
	for _, p := range c.q.policies {
		b = append(b, "<SignedIdentifier>"...)
		b = appendElement(b, "Id", p.id)
		b = append(b, "<AccessPolicy>"...)
		b = appendElement(b, "Start", p.start)
		b = appendElement(b, "Expiry", p.expiry)
		b = appendElement(b, "Permission", p.permissions)
		b = append(b, "</AccessPolicy></SignedIdentifier>"...)
	}
	c.out = append(b, "</SignedIdentifiers>"...)
	return nil
}

// setPolicies replaces the stored access policies.
func (s *Server) setPolicies(c *call) *failure {
	var doc struct {
		XMLName xml.Name `xml:"SignedIdentifiers"`
		All     []struct {
			ID         string `xml:"Id"`
			Start      string `xml:"AccessPolicy>Start"`
			Expiry     string `xml:"AccessPolicy>Expiry"`
			Permission string `xml:"AccessPolicy>Permission"`
		} `xml:"SignedIdentifier"`
	}
	if len(c.body) > maxBody {
		return tooLarge()
	}
	if len(c.body) > 0 {
		if err := xml.Unmarshal(c.body, &doc); err != nil || len(doc.All) > maxPolicies {
			return &failure{status: http.StatusBadRequest, code: "InvalidXmlDocument"}
		}
	}
	var all []policyEntry
	for _, p := range doc.All {
		all = append(all, policyEntry{p.ID, p.Start, p.Expiry, p.Permission})
	}
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if !c.q.exists {
		return queueNotFound()
	}
	c.q.policies = all
	c.status = http.StatusNoContent
	return nil
}
