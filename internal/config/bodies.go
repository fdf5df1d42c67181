package config

import (
	"net/url"
)

// bodies checks what settings about bodies mean to one another.
func (v *validator) bodies(key string, q *Queue) {
	if at := key + ".compressionThreshold"; !q.Compress && v.cfg.Set(at) {
		v.say(at, "has no effect without compress: true; set that as well, or remove this")
	}
	q.settleCompression()
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
	at := key + ".endpoint"
	if !v.set(at) {
		return
	}
	if problem := urlFault(l.Endpoint); problem != "" {
		v.say(at, "%s", problem)
		return
	}
	if u, err := url.Parse(l.Endpoint); err == nil && (u.RawQuery != "" || u.User != nil || u.Fragment != "") {
		v.say(at, "has more than scheme, host and account; end it there: the account's own sign-in is used")
	}
}
