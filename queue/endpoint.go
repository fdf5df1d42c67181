package queue

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// endpoint is where an account's queue service is.
type endpoint struct {
	scheme  string
	host    string // with its port
	base    string // "/devstoreaccount1" where the account is in the path, else ""
	account string // storage account; "" where neither host nor path tells it
	queue   string // from a queue's URL; else ""
	suffix  string // "core.windows.net"; "" for custom domains and emulators
}

// url returns the account's URL, without a trailing slash.
func (e endpoint) url() string { return e.scheme + "://" + e.host + e.base }

// same says whether two endpoints are one account's.
func (e endpoint) same(o endpoint) bool { return e.url() == o.url() && e.account == o.account }

const (
	devAccount = "devstoreaccount1"
	// The emulator's key is public knowledge: it is in Azurite's manual.
	devKey  = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
	devPort = "10001"
)

// Suffixes of Azure's clouds. Others (Azure Stack, custom domains) work too, but are judged less.
const (
	suffixPublic = "core.windows.net"
	suffixZones  = "storage.azure.net" // accounts with a DNS zone
	suffixChina  = "core.chinacloudapi.cn"
	suffixGov    = "core.usgovcloudapi.net"
)

func azureSuffixes() []string { return []string{suffixPublic, suffixZones, suffixChina, suffixGov} }

// parseEndpoint reads an account's endpoint or a queue's URL. The account name is the configured one
// or "". No error shows a part of the text that may be a secret: hosts are shown only when they are
// plain, and of the rest only what has been recognised.
func parseEndpoint(raw, accountName string) (endpoint, error) {
	raw = strings.TrimSpace(raw)
	if err := notAnEndpoint(raw); err != nil {
		return endpoint{}, err
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Host == "" {
		return endpoint{}, errors.New("it is not a URL like https://NAME.queue.core.windows.net")
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname())
	switch {
	case scheme != "http" && scheme != "https":
		return endpoint{}, errors.New("its scheme is neither https nor http: the queue service is reached as https://NAME.queue.core.windows.net")
	case u.User != nil:
		return endpoint{}, errors.New("it has a user name or password before the host: remove them")
	case !plainHost(host):
		return endpoint{}, errors.New("its host is not a host name")
	case u.Fragment != "":
		return endpoint{}, errors.New("it has a part after #: remove it")
	case hasSignature(u.RawQuery):
		return endpoint{}, errors.New("it carries a SAS: put the whole URL in sas (or sasFile), where it is kept secret")
	case u.RawQuery != "" || u.ForceQuery:
		return endpoint{}, errors.New("it has a query that is not a SAS: end it before the ?")
	}
	e := endpoint{scheme: scheme, host: strings.ToLower(u.Host)}
	if p := u.Port(); p == "80" && scheme == "http" || p == "443" && scheme == "https" || strings.HasSuffix(e.host, ":") {
		e.host = strings.TrimSuffix(strings.TrimSuffix(e.host, p), ":")
	}
	segments := strings.FieldsFunc(u.EscapedPath(), func(r rune) bool { return r == '/' })
	if err := e.locate(host, accountName, &segments); err != nil {
		return endpoint{}, err
	}
	return e, e.takeQueue(segments)
}

// notAnEndpoint recognises other things that people put where an endpoint belongs.
func notAnEndpoint(raw string) error {
	lower := asciiLower(raw)
	switch {
	case raw == "":
		return errors.New("it is empty: give https://NAME.queue.core.windows.net")
	case strings.Contains(lower, "accountkey=") || strings.Contains(lower, "sharedaccesssignature=") || strings.Contains(lower, "usedevelopmentstorage="):
		return errors.New("it is a connection string: put it in connectionString (or connectionStringFile)")
	case strings.HasPrefix(lower, "sb://") || strings.HasPrefix(lower, "amqp"):
		return errors.New("it is a Service Bus or Event Hubs endpoint: qwatch reads Azure Storage queues, https://NAME.queue.core.windows.net")
	case !strings.Contains(raw, "://"):
		host, _, _ := strings.Cut(lower, "/")
		account, suffix, _ := strings.Cut(host, ".queue.")
		switch {
		case plainAccount(account) && slices.Contains(azureSuffixes(), suffix):
			return fmt.Errorf("it has no scheme: write https://%s", host)
		case strings.Contains(host, "."):
			return errors.New("it has no scheme: begin it with https://")
		}
		return errors.New("it is not a URL like https://NAME.queue.core.windows.net")
	}
	return nil
}

// locate finds the account in the host or in the first segment of the path.
func (e *endpoint) locate(host, accountName string, segments *[]string) error {
	labels := strings.Split(host, ".")
	at := slices.IndexFunc(labels, func(l string) bool { return slices.Contains(services(), l) })
	if at > 0 && at <= 3 {
		suffix := strings.Join(labels[at+1:], ".")
		azure := slices.Contains(azureSuffixes(), suffix)
		if service := labels[at]; service != "queue" && (azure || strings.HasPrefix(suffix, "core.") || suffix == "localhost") {
			account := labels[0]
			if suffix == suffixZones {
				account = strings.Join(labels[:at], ".")
			}
			return fmt.Errorf("%s is a %s endpoint: use %s://%s.queue.%s", host, service, e.scheme, account, suffix)
		}
		if labels[at] == "queue" && (azure || accountName == "" || accountName == labels[0]) {
			return e.hostStyle(host, labels[0], suffix, accountName, azure)
		}
	}
	if strings.HasSuffix(host, ".servicebus.windows.net") {
		return fmt.Errorf("%s is a Service Bus or Event Hubs endpoint: qwatch reads Azure Storage queues, https://NAME.queue.core.windows.net", host)
	}
	if s := *segments; len(s) > 0 && pathStyle(host, s[0], accountName) {
		if !plainAccount(s[0]) {
			return errors.New("the first part of its path is not a storage account name (3 to 24 lower-case letters and digits)")
		}
		if accountName != "" && s[0] != accountName {
			return fmt.Errorf("it is the endpoint of account %q, but accountName is %q: make them agree", s[0], accountName)
		}
		e.account, e.base, *segments = s[0], "/"+s[0], s[1:]
		return nil
	}
	if local(host) {
		return fmt.Errorf("it lacks the account: write %s://%s/%s", e.scheme, e.host, cmp.Or(accountName, devAccount))
	}
	e.account = accountName
	return nil
}

func (e *endpoint) hostStyle(host, account, suffix, accountName string, azure bool) error {
	primary, secondary := strings.CutSuffix(account, "-secondary")
	switch {
	case secondary && azure:
		return fmt.Errorf("%s is the account's read-only secondary endpoint: use %s://%s.queue.%s", host, e.scheme, primary, suffix)
	case azure && !plainAccount(account):
		return fmt.Errorf("%q is not a storage account name (3 to 24 lower-case letters and digits)", account)
	case accountName != "" && accountName != account:
		return fmt.Errorf("it is the endpoint of account %q, but accountName is %q: make them agree, or remove accountName", account, accountName)
	}
	e.account = account
	if azure {
		e.suffix = suffix
	}
	return nil
}

// takeQueue reads what is left of the path: nothing, or a queue's name.
func (e *endpoint) takeQueue(segments []string) error {
	switch len(segments) {
	case 0:
		return nil
	case 1:
		if CheckName(segments[0]) != nil {
			return errors.New("its path is not a queue's name: end it after the host")
		}
		e.queue = segments[0]
		return nil
	default:
		return errors.New("its path goes beyond a queue's name: end it after the host, or after the queue's name")
	}
}

func services() []string { return []string{"queue", "blob", "table", "file", "dfs", "web"} }

// pathStyle says whether the account is in the path: emulators and services without a DNS of their own.
func pathStyle(host, first, accountName string) bool {
	return local(host) || first == devAccount || accountName != "" && first == accountName
}

// local says whether a host is an address or a single name, which cannot be an Azure host.
func local(host string) bool {
	return net.ParseIP(host) != nil || !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost")
}

func plainHost(host string) bool {
	if net.ParseIP(host) != nil {
		return true
	}
	if host == "" || len(host) > 253 || strings.HasPrefix(host, ".") || strings.Contains(host, "..") {
		return false
	}
	for _, r := range host {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.') {
			return false
		}
	}
	return true
}

func plainAccount(name string) bool {
	if len(name) < 3 || len(name) > 24 {
		return false
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') {
			return false
		}
	}
	return true
}

func hasSignature(query string) bool {
	q := "&" + asciiLower(query)
	return strings.Contains(q, "&sig=") || strings.Contains(q, "&amp;sig=")
}

// asciiLower lowers ASCII letters only, byte by byte, so that offsets stay.
func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
