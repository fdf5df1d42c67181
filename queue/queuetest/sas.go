package queuetest

import (
	"net/netip"
	"strings"
	"time"
)

// grant is what a SAS must allow for a request.
type grant struct {
	resource byte   // account SAS: resource type, any of these permissions
	account  string // account SAS; "" is never
	service  string // service SAS; "" is never
}

var grants = [numVerbs]grant{
	listQueues:        {'s', "l", ""},
	serviceProperties: {'s', "r", ""},
	createQueue:       {'c', "cw", ""},
	deleteQueue:       {'c', "d", ""},
	getMetadata:       {'c', "r", "r"},
	setMetadata:       {'c', "w", ""},
	getACL:            {'c', "", ""},
	setACL:            {'c', "", ""},
	putMessage:        {'o', "a", "a"},
	getMessages:       {'o', "p", "p"},
	peekMessages:      {'o', "r", "r"},
	clearMessages:     {'o', "d", "p"},
	updateMessage:     {'o', "u", "u"},
	deleteMessage:     {'o', "p", "p"},
}

// sas verifies an account SAS or a service SAS: its signature, lifetime, protocol,
// address range and permissions.
func (s *Server) sas(c *call) *failure {
	get := func(name string) string { v, _ := c.param(name); return v }
	version := get("sv")
	if !isVersion(version) {
		return unauthenticated("sv is not valid.")
	}
	start, expiry, permissions := get("st"), get("se"), get("sp")
	services, types := get("ss"), get("srt")
	byAccount := services != "" || types != ""

	var text string
	if byAccount {
		text = lines(c.account, permissions, services, types, start, expiry, get("sip"), get("spr"), version)
		if version >= "2020-12-06" {
			text += get("ses") + "\n"
		}
	} else {
		text = strings.TrimSuffix(lines(permissions, start, expiry, "/queue/"+c.account+"/"+c.queue,
			get("si"), get("sip"), get("spr"), version), "\n")
	}
	if !c.acct.mac.signed([]byte(text), get("sig")) {
		return unauthenticated("Signature did not match.")
	}
	if id := get("si"); id != "" && !byAccount {
		p, ok := c.policy(id)
		if !ok || start != "" && p.start != "" || expiry != "" && p.expiry != "" || permissions != "" && p.permissions != "" {
			return unauthenticated("Signed identifier is not valid.")
		}
		start, expiry, permissions = start+p.start, expiry+p.expiry, permissions+p.permissions
	}
	if f := checkLifetime(c.time(), start, expiry); f != nil {
		return f
	}
	if get("spr") == "https" && !c.secure {
		return forbidden("AuthorizationProtocolMismatch", "")
	}
	if r := get("sip"); r != "" && c.socket && !inRange(c.req.RemoteAddr, r) {
		return forbidden("AuthorizationSourceIPMismatch", "")
	}
	need := grants[c.verb]
	allowed := need.service
	if byAccount {
		if !strings.Contains(services, "q") {
			return forbidden("AuthorizationServiceMismatch", "")
		}
		if need.resource != 0 && strings.IndexByte(types, need.resource) < 0 {
			return forbidden("AuthorizationResourceTypeMismatch", "")
		}
		allowed = need.account
	}
	if c.verb != unknown && !strings.ContainsAny(permissions, allowed) {
		return forbidden("AuthorizationPermissionMismatch", "")
	}
	return nil
}

// lines joins its arguments, each with a line feed.
func lines(all ...string) string { return strings.Join(all, "\n") + "\n" }

func checkLifetime(now time.Time, start, expiry string) *failure {
	if start != "" {
		if t, ok := parseSASTime(start); !ok || now.Before(t) {
			return unauthenticated("Signature not valid in the specified time frame: Start [" + start + "]")
		}
	}
	if t, ok := parseSASTime(expiry); !ok || !now.Before(t) {
		return unauthenticated("Signature not valid in the specified time frame: Expiry [" + expiry + "]")
	}
	return nil
}

func parseSASTime(v string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z", time.DateOnly} {
		if t, err := time.Parse(layout, v); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// inRange reports whether the client's address is r, or within r of the form a-b.
func inRange(remote, r string) bool {
	from, to, ok := strings.Cut(r, "-")
	if !ok {
		to = from
	}
	addr, err1 := netip.ParseAddrPort(remote)
	low, err2 := netip.ParseAddr(from)
	high, err3 := netip.ParseAddr(to)
	if err1 != nil || err2 != nil || err3 != nil {
		return false
	}
	a := addr.Addr().Unmap()
	return low.Compare(a) <= 0 && a.Compare(high) <= 0
}
