package queue

import (
	"encoding/base64"
	"log/slog"
	"strings"
	"testing"
)

const (
	markedKey = "TUFSS0VES0VZTUFSS0VES0VZTUFSS0VES0VZTUFSS0VES0VZTUFSS0VES0VZTUFSS0VES0VZ"
	markedSig = "sig=TUFSS0VES0VZTUFSS0VES0VZTUFSS0VES0VZTUFSS0U%3D"
	marked    = "TUFSS0VES0VZ"
)

// FuzzConnectionString takes whatever people paste around a key or a signature. No panic, no secret
// in an error, and what is accepted is complete.
func FuzzConnectionString(f *testing.F) {
	for _, s := range []string{
		"", ";", "=", "UseDevelopmentStorage=true", "AccountName=acct;", "DefaultEndpointsProtocol=https;AccountName=acct;", "QueueEndpoint=https://acct.queue.core.windows.net/;",
		"QueueEndpoint=https://acct.blob.core.windows.net;", "\"", "https://", "https://acct.queue.core.windows.net/?", "Endpoint=sb://x/;", "QueueEndpoint=http://[::1", "QueueEndpoint=https://a:b@c/",
		"UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://", "EndpointSuffix=", "AccountName=;;\r\n", "ss=b&", "?sv=1&", "\xff\x00",
	} {
		for kind := range uint8(4) {
			f.Add(s, "", kind)
			f.Add(s, ";EndpointSuffix=core.chinacloudapi.cn", kind)
			f.Add("", ";"+s, kind)
		}
	}
	f.Fuzz(func(t *testing.T, before, after string, kind uint8) {
		if strings.Contains(before, marked) || strings.Contains(after, marked) {
			return
		}
		secret := []string{"AccountKey=" + markedKey, "SharedAccessSignature=sv=2024-11-04&sp=r&se=2999-01-01&" + markedSig, markedKey, "?sv=2024-11-04&" + markedSig}[kind%4]
		c, err := parseConnection(Secret(before+secret+after), "")
		if err != nil {
			if strings.Contains(err.Error(), marked) {
				t.Errorf("the error shows the secret: %v", err)
			}
			return
		}
		if e := c.endpoint; e.host == "" || e.scheme != "http" && e.scheme != "https" || (c.key == "") == (c.sas == "") {
			t.Errorf("accepted %+v", e)
		}
		if _, err := parseEndpoint(c.endpoint.url(), c.endpoint.account); err != nil {
			t.Errorf("its own URL %s is refused: %v", c.endpoint.url(), err)
		}
	})
}

// FuzzEndpoint: no panic, no secret in an error, and what is accepted is stable.
func FuzzEndpoint(f *testing.F) {
	for _, s := range []string{
		"", "https://acct.queue.core.windows.net/", "https://acct.blob.core.windows.net", "http://127.0.0.1:10001/devstoreaccount1", "https://queues.example.com/orders",
		"https://acct.queue.core.windows.net/orders/messages", "https://acct.queue.core.windows.net?", "https://acct.queue.core.windows.net/?x=", "sb://x", "http://[::1]:1/a", "https://x:y@",
		"https://", "//", "AccountKey=", "acct.queue.core.windows.net", "https://acct-secondary.queue.core.windows.net#", "http://localhost:0x/", "HTTP://\xff",
	} {
		f.Add(s, "", "acct")
		f.Add(s, "?"+markedSig, "")
		f.Add(s, "/"+markedKey, "")
		f.Add(s+markedKey, "", "")
	}
	f.Fuzz(func(t *testing.T, raw, after, account string) {
		if account != "" && !plainAccount(account) {
			return // NewAccount has refused it before
		}
		e, err := parseEndpoint(raw+after, account)
		if err != nil {
			if strings.Contains(err.Error(), marked) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error shows too much: %v", err)
			}
			return
		}
		again, err := parseEndpoint(e.url(), e.account)
		if err != nil || !again.same(e) {
			t.Errorf("%q gives %s of %q, which gives %s of %q, %v", raw+after, e.url(), e.account, again.url(), again.account, err)
		}
	})
}

// FuzzSAS: no panic, no secret in an error, and what is accepted can go into a request line.
func FuzzSAS(f *testing.F) {
	for _, s := range []string{
		"", "?", "sv=2024-11-04&sp=raup&se=2999-01-01&", "sv=2024-11-04&ss=q&srt=sco&sp=r&se=2999-01-01T00:00:00Z&", "https://acct.queue.core.windows.net/orders?sv=2024-11-04&si=p&",
		"sv=1&sp=r&se=x&", "sr=b&", "%", "a b", "&amp;", "\"", "st=2024-01-01&", "SharedAccessSignature=",
	} {
		f.Add(s, "")
		f.Add(s, "&spr=https")
		f.Add("", s)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		tok, _, err := parseSAS(Secret(before + markedSig + after))
		if err != nil {
			if strings.Contains(err.Error(), marked) {
				t.Errorf("the error shows the secret: %v", err)
			}
			return
		}
		if strings.ContainsFunc(tok.query, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' }) || !strings.Contains(tok.query, "sig=") {
			t.Errorf("accepted %q", tok.query)
		}
	})
}

// FuzzAccount: an account never shows its secret, and signs only where a key can.
func FuzzAccount(f *testing.F) {
	f.Add("https://acct.queue.core.windows.net", "", true)
	f.Add("http://127.0.0.1:10001/devstoreaccount1", "devstoreaccount1", false)
	f.Add("AccountName=acct;", "", true)
	f.Fuzz(func(t *testing.T, endpoint, name string, asKey bool) {
		var log strings.Builder
		c := AccountConfig{Name: "acct", Endpoint: endpoint, AccountName: name, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		if asKey {
			c.AccountKey = markedKey
		} else {
			c.SAS = "sv=2024-11-04&sp=raup&se=2001-01-01&" + markedSig
		}
		a, err := NewAccount(c)
		if err != nil {
			if strings.Contains(err.Error(), marked) {
				t.Errorf("the error shows the secret: %v", err)
			}
			return
		}
		defer a.Close()
		if _, err := base64.StdEncoding.DecodeString(markedKey); err != nil || a.URL() == "" || strings.Contains(a.URL()+a.StorageAccount()+log.String(), marked) {
			t.Errorf("accepted %q: %s", endpoint, a.URL())
		}
	})
}
