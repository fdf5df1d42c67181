package config

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// validator checks decoded values and the rules between them. What the decoder reported already
// is not reported again.
type validator struct {
	*decoder
	cfg *Config
}

// say reports a fault of the value at a key.
func (v *validator) say(key, format string, args ...any) {
	for k := key; ; k = parent(k) {
		if v.marks[k].bad {
			return
		}
		if k == "" {
			break
		}
	}
	v.faults.add(locate(v.file, v.marks, key), format, args...)
}

// set says whether the file, or a default in it, sets the value.
func (v *validator) set(key string) bool { _, ok := v.marks[key]; return ok }

func (v *validator) line(key string) int { return locate(v.file, v.marks, key).Line }

// shown is a value as the file has it; what the environment put there is not shown.
func (v *validator) shown(key string, value any) string {
	if m, ok := v.marks[key]; ok && m.raw != "" {
		return quote(m.raw)
	}
	if d, ok := value.(time.Duration); ok {
		value = formatDuration(d)
	}
	return fmt.Sprintf("the default %v", value)
}

// number is a numeric value as the file has it, without quotes.
func (v *validator) number(key string, value any) string {
	s := v.shown(key, value)
	if n, err := strconv.Unquote(s); err == nil && !v.marks[key].env {
		return n
	}
	return s
}

func (v *validator) config() {
	v.accounts()
	for i := range v.cfg.Defaults {
		v.rule(fmt.Sprintf("defaults[%d]", i), &v.cfg.Defaults[i])
	}
	v.watch()
	v.scaling()
	v.cluster()
	v.server()
	v.telemetry()
}

func (v *validator) accounts() {
	if len(v.cfg.Accounts) == 0 {
		v.say("accounts", "at least one account is needed: accounts: [{name: …, connectionString: …, queues: [{name: …}]}]")
	}
	seen := map[string]string{}
	for i := range v.cfg.Accounts {
		a := &v.cfg.Accounts[i]
		key := fmt.Sprintf("accounts[%d]", i)
		switch {
		case a.Name == "":
			v.say(key+".name", "is missing; it is the account's label in metrics, commands and addresses")
		case !isLabel(a.Name):
			v.say(key+".name", "%s is not an account label; use 1 to 63 letters, digits, dots, underscores and hyphens, the first a letter or digit", v.shown(key+".name", a.Name))
		case seen[a.Name] != "":
			v.say(key+".name", "%s is also the name of %s (line %d); names must differ", v.shown(key+".name", a.Name), seen[a.Name], v.line(seen[a.Name]+".name"))
		default:
			seen[a.Name] = key
		}
		v.signIn(key, a)
		v.queues(key, a)
		v.discovery(key+".discovery", a.Discovery)
	}
}

const ways = "connectionString, connectionStringFile, or endpoint with one of sas, sasFile, accountKey, accountKeyFile and identity"

// signIn checks that there is exactly one way to sign in.
func (v *validator) signIn(key string, a *Account) {
	var found []string
	for _, name := range []string{"connectionString", "connectionStringFile", "sas", "sasFile", "accountKey", "accountKeyFile", "identity"} {
		if v.set(key + "." + name) {
			found = append(found, name)
		}
	}
	endpoint := v.set(key + ".endpoint")
	switch {
	case len(found) == 0 && endpoint:
		v.say(key+".endpoint", "needs a way to sign in beside it; add one of sas, sasFile, accountKey, accountKeyFile and identity")
	case len(found) == 0:
		v.say(key, "has no way to sign in; set "+ways)
	default:
		for _, name := range found[1:] {
			v.say(key+"."+name, "is a second way to sign in, beside %s (line %d); keep one", found[0], v.line(key+"."+found[0]))
		}
		inString := strings.HasPrefix(found[0], "connectionString")
		switch {
		case inString && endpoint:
			v.say(key+".endpoint", "stands beside %s (line %d), which names the endpoint itself; keep one", found[0], v.line(key+"."+found[0]))
		case !inString && !endpoint:
			v.say(key+"."+found[0], "needs an endpoint beside it, such as endpoint: https://myaccount.queue.core.windows.net")
		}
		if inString && v.set(key+".accountName") {
			v.say(key+".accountName", "stands beside %s (line %d), which names the account itself; remove it", found[0], v.line(key+"."+found[0]))
		}
	}
	if a.Endpoint != "" {
		if problem := urlFault(a.Endpoint); problem != "" {
			v.say(key+".endpoint", "%s", problem)
		} else if u, err := url.Parse(a.Endpoint); err == nil && (u.RawQuery != "" || u.User != nil) {
			v.say(key+".endpoint", "must not carry a query or a user; a shared access signature goes under sas")
		}
	}
	if id := a.Identity; id != nil && id.Type != IdentityDefault && id.Type != IdentityWorkload && id.Type != IdentityManaged {
		v.say(key+".identity.type", "%s is not an identity; use default, workload or managed", v.shown(key+".identity.type", id.Type))
	}
}

func (v *validator) discovery(key string, d *Discovery) {
	if d == nil {
		return
	}
	if len(d.Include) == 0 {
		v.say(key+".include", "is empty, so that nothing would be found; use [\"*\"] for everything")
	}
	globs := func(name string, list []string) {
		for i, g := range list {
			k := fmt.Sprintf("%s.%s[%d]", key, name, i)
			if problem := globFault(g); problem != "" {
				v.say(k, "%s %s", v.shown(k, g), problem)
			} else if strings.Contains(g, "/") {
				v.say(k, "%s has a slash; here globs are of queue names, since the account is known", v.shown(k, g))
			}
		}
	}
	globs("include", d.Include)
	globs("exclude", d.Exclude)
	v.atLeast(key+".interval", d.Interval, 10*time.Second)
	v.atLeastOne(key+".maxQueues", d.MaxQueues)
}

func (v *validator) watch() {
	w := &v.cfg.Watch
	v.atLeast("watch.interval", w.Interval, time.Second)
	if !v.set("watch.idleInterval") {
		w.IdleInterval = max(w.IdleInterval, w.Interval)
	}
	if w.IdleInterval < w.Interval {
		v.say("watch.idleInterval", "%s is shorter than the interval of %s; make it at least that", v.number("watch.idleInterval", w.IdleInterval), v.number("watch.interval", w.Interval))
	}
	if v.set("watch.poisonIdleInterval") && w.PoisonIdleInterval < w.Interval {
		v.say("watch.poisonIdleInterval", "%s is shorter than the interval of %s; make it at least that", v.number("watch.poisonIdleInterval", w.PoisonIdleInterval), v.number("watch.interval", w.Interval))
	}
	v.atLeast("watch.patience", w.Patience, time.Second)
	if w.Series != SeriesFull && w.Series != SeriesCompact {
		v.say("watch.series", "%s is not a set of series; use full or compact", v.shown("watch.series", w.Series))
	}
	if v.set("watch.pricePer10kTransactions") && w.PricePer10kTransactions <= 0 {
		v.say("watch.pricePer10kTransactions", "%s is not a price; use what 10000 transactions cost, such as 0.004, or remove the key", v.number("watch.pricePer10kTransactions", w.PricePer10kTransactions))
	}
	if w.RequestsPerSecond <= 0 {
		v.say("watch.requestsPerSecond", "%s is not more than zero; the service takes about 20000 a second for one account", v.number("watch.requestsPerSecond", w.RequestsPerSecond))
	}
}

func (v *validator) atLeast(key string, d, least time.Duration) {
	if d < least {
		v.say(key, "%s is too short; use %s or more", v.number(key, d), formatDuration(least))
	}
}

func (v *validator) atLeastOne(key string, n int) {
	if n < 1 {
		v.say(key, "%s is too few; use 1 or more", v.number(key, n))
	}
}

func (v *validator) server() {
	s := &v.cfg.Server
	type listener struct{ key, host, port string }
	var list []listener
	for _, l := range []struct{ key, addr string }{{"server.listen", s.Listen}, {"server.probes", s.Probes}, {"server.grpc", s.GRPC}} {
		if l.addr == Off {
			continue
		}
		host, port, err := net.SplitHostPort(l.addr)
		n, errPort := strconv.Atoi(port)
		switch {
		case err != nil || errPort != nil || n < 0 || n > 65535:
			v.say(l.key, "%s is not an address; use host:port or :port, with a port number from 0 to 65535", v.shown(l.key, l.addr))
			continue
		case host != "" && !isHost(host) && net.ParseIP(host) == nil:
			v.say(l.key, "%s has a host that is neither a name nor an address", v.shown(l.key, l.addr))
			continue
		}
		for _, o := range list {
			if n != 0 && o.port == strconv.Itoa(n) && (o.host == host || anyHost(o.host) || anyHost(host)) {
				key, other := l.key, o.key
				if !v.set(key) {
					key, other = other, key
				}
				v.say(key, "takes port %d, which %s takes as well; give each listener its own", n, other)
				break
			}
		}
		list = append(list, listener{l.key, host, strconv.Itoa(n)})
	}
	if t := s.GRPCTLS; t != nil {
		for _, f := range []struct{ name, file string }{{"certFile", t.CertFile}, {"keyFile", t.KeyFile}} {
			if f.file == "" {
				v.say("server.grpcTLS."+f.name, "is missing; TLS needs both certFile and keyFile")
			}
		}
	}
}

func anyHost(h string) bool {
	ip := net.ParseIP(h)
	return h == "" || ip != nil && ip.IsUnspecified()
}

// urlFault says what is wrong with an http or https URL, without showing it; empty when nothing is.
func urlFault(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "is not a URL; use http://host:port/path or https://host/path"
	case u.Scheme != "http" && u.Scheme != "https":
		return "is not an absolute http or https URL; use http://host:port/path or https://host/path"
	case u.Hostname() == "":
		return "has no host; use http://host:port/path or https://host/path"
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return "has a port that is not from 1 to 65535"
		}
	}
	return ""
}

// isHost accepts a host name, and host:port.
func isHost(s string) bool {
	host := s
	if h, port, err := net.SplitHostPort(s); err == nil {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return false
		}
		host = h
	}
	if net.ParseIP(host) != nil {
		return true
	}
	host = strings.TrimSuffix(host, ".")
	if host == "" || len(host) > 253 {
		return false
	}
	for l := range strings.SplitSeq(host, ".") {
		if l == "" || len(l) > 63 || strings.Trim(l, "-") != l || strings.Trim(strings.ToLower(l), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

func isLabel(s string) bool {
	for i, r := range s {
		alnum := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !alnum && (i == 0 || r != '.' && r != '_' && r != '-') {
			return false
		}
	}
	return s != "" && len(s) <= 63
}
