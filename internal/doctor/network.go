package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// network resolves the account's host, connects, and looks at the certificate.
func (e *examiner) network(ctx context.Context) bool {
	u, err := url.Parse(e.acct.URL())
	if err != nil {
		return e.add(Finding{Check: CheckAddress, Status: Failed, Reason: ReasonOther, Detail: "the endpoint is not a URL"})
	}
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if proxy, err := e.Proxy(&http.Request{URL: u}); err == nil && proxy != nil {
		// The proxy resolves and connects; the first request tells whether it can.
		return e.add(Finding{Check: CheckConnection, Status: OK, Detail: fmt.Sprintf("%s is asked through the proxy %s", host, proxy.Host)})
	}
	addresses, ok := e.resolve(ctx, host)
	if !ok {
		return false
	}
	conn, ok := e.connect(ctx, addresses, port)
	if !ok {
		return false
	}
	defer func() { _ = conn.Close() }()
	return u.Scheme != "https" || e.handshake(ctx, conn, host)
}

// resolve returns the addresses of a host.
func (e *examiner) resolve(ctx context.Context, host string) ([]net.IPAddr, bool) {
	if ip := net.ParseIP(host); ip != nil {
		return []net.IPAddr{{IP: ip}}, e.add(Finding{Check: CheckAddress, Status: OK, Detail: host + " is an address"})
	}
	var addresses []net.IPAddr
	err := e.within(ctx, func(ctx context.Context) (err error) {
		addresses, err = e.Lookup(ctx, host)
		return err
	})
	if err == nil && len(addresses) > 0 {
		return addresses, e.add(Finding{Check: CheckAddress, Status: OK, Detail: fmt.Sprintf("%s is %s", host, spelled(addresses))})
	}
	f := Finding{
		Check: CheckAddress, Status: Failed, Reason: ReasonNameServer,
		Detail: fmt.Sprintf("%s cannot be looked up: %s", host, short(err)),
		Cure:   "check the name servers of this machine or pod (/etc/resolv.conf, the cluster's DNS, a network policy without port 53)",
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound || err == nil {
		f.Reason, f.Detail = ReasonNameUnknown, host+" does not exist"
		f.Cure = "check the account's name and its cloud; behind a private endpoint, link the zone privatelink.queue… to this network"
	}
	return nil, e.add(f)
}

// spelled names addresses, and says which are private: an account behind a private endpoint that resolves to a
// public address, or the other way round, is a common reason for a refusal.
func spelled(addresses []net.IPAddr) string {
	const most = 4
	words := make([]string, 0, len(addresses))
	for i, a := range addresses {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(addresses)-most))
			break
		}
		kind := "public"
		switch {
		case a.IP.IsLoopback():
			kind = "this machine"
		case a.IP.IsPrivate() || a.IP.IsLinkLocalUnicast():
			kind = "private"
		}
		words = append(words, fmt.Sprintf("%s (%s)", a.IP, kind))
	}
	return strings.Join(words, ", ")
}

// connect tries each address until one answers.
func (e *examiner) connect(ctx context.Context, addresses []net.IPAddr, port string) (net.Conn, bool) {
	var errs []error
	for _, a := range addresses {
		at := net.JoinHostPort(a.String(), port)
		var conn net.Conn
		err := e.within(ctx, func(ctx context.Context) (err error) {
			conn, err = e.Dial(ctx, "tcp", at)
			return err
		})
		if err == nil {
			return conn, e.add(Finding{Check: CheckConnection, Status: OK, Detail: at + " accepts connections"})
		}
		errs = append(errs, err)
	}
	at := net.JoinHostPort(addresses[0].String(), port)
	f := Finding{
		Check: CheckConnection, Status: Failed, Reason: ReasonNetwork, Detail: fmt.Sprintf("%s cannot be reached: %s", at, short(errs[0])),
		Cure: "check the routes and the network policies between here and storage",
	}
	switch err := errors.Join(errs...); {
	case errors.Is(err, syscall.ECONNREFUSED):
		f.Reason, f.Detail = ReasonRefused, at+" refuses connections: nothing listens at that port, or a firewall rejects them"
		f.Cure = "check host and port of the endpoint; an emulator must be running there; a network policy must let " + port + " out"
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		f.Reason, f.Detail = ReasonNoAnswer, fmt.Sprintf("%s does not answer within %v: a firewall drops what is sent, or there is no route", at, e.Timeout)
		f.Cure = "let port " + port + " out of this network (network policy, security group, egress firewall), or use the private endpoint"
	}
	return nil, e.add(f)
}

// handshake looks at the certificate as a client of the account would.
func (e *examiner) handshake(ctx context.Context, conn net.Conn, host string) bool {
	client := tls.Client(conn, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12})
	err := e.within(ctx, client.HandshakeContext)
	if err == nil {
		s := client.ConnectionState()
		until := ""
		if len(s.PeerCertificates) > 0 {
			until = ", certificate good until " + s.PeerCertificates[0].NotAfter.UTC().Format(time.DateOnly)
		}
		return e.add(Finding{Check: CheckTLS, Status: OK, Detail: tls.VersionName(s.Version) + until})
	}
	f := Finding{
		Check: CheckTLS, Status: Failed, Reason: ReasonTLS, Detail: "the handshake fails: " + short(err),
		Cure: "check that the endpoint speaks TLS at this port, and that nothing on the way breaks it",
	}
	name, named := errors.AsType[x509.HostnameError](err)
	unknown, unsigned := errors.AsType[x509.UnknownAuthorityError](err)
	invalid, dated := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case named:
		f.Reason, f.Detail = ReasonTLSName, fmt.Sprintf("the certificate is for %s, not for %s", certified(name.Certificate), host)
		f.Cure = "use the account's own endpoint; a private name needs an alias that keeps NAME.queue.core.windows.net"
	case unsigned:
		f.Reason, f.Detail = ReasonTLSUntrusted, "the certificate of "+issuer(unknown.Cert)+" is signed by an authority that is not trusted here"
		f.Cure = "a proxy that opens TLS needs its authority in SSL_CERT_FILE or SSL_CERT_DIR; an image from scratch needs a CA bundle"
	case dated && invalid.Reason == x509.Expired:
		f.Reason, f.Detail = ReasonTLSTime, "the certificate is out of date by this machine's clock: "+short(err)
		f.Cure = "set this machine's clock; if it is right, the certificate has expired"
	}
	return e.add(f)
}

func certified(c *x509.Certificate) string {
	if c == nil || len(c.DNSNames) == 0 {
		return "no name"
	}
	return strings.Join(c.DNSNames[:min(3, len(c.DNSNames))], ", ")
}

func issuer(c *x509.Certificate) string {
	if c == nil {
		return "the server"
	}
	return fmt.Sprintf("%q", c.Issuer.String())
}

func isTimeout(err error) bool {
	timed, ok := errors.AsType[net.Error](err)
	return ok && timed.Timeout()
}

// short is an error without what repeats the address.
func short(err error) string {
	if err == nil {
		return "no address"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		err = op.Err
	}
	fields := strings.Fields(err.Error())
	return strings.Join(slices.Clip(fields), " ")
}
