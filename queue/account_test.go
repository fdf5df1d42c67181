package queue_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

const (
	key = queuetest.AccountKey
	sig = "sig=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE%3D" // 32 bytes, signed by nobody
	// An account SAS and a queue's SAS as the portal writes them.
	accountSAS = "sv=2024-11-04&ss=bq&srt=sco&sp=rwdlacup&se=2999-01-01T00:00:00Z&spr=https&" + sig
	queueSAS   = "sv=2024-11-04&sp=raup&se=2999-01-01T00:00:00Z&" + sig
)

// noNetwork is a transport that nothing may use.
func noNetwork(t *testing.T) transportFunc {
	return func(r *http.Request) (*http.Response, error) {
		t.Errorf("a request was made: %s %s", r.Method, r.URL.Path)
		return nil, http.ErrHandlerTimeout
	}
}

// refused returns the faults of a configuration, without the account that each begins with.
func refused(t *testing.T, cfg queue.AccountConfig) []string {
	t.Helper()
	cfg.Name, cfg.Transport = "acct", noNetwork(t)
	_, err := queue.NewAccount(cfg)
	if err == nil {
		return nil
	}
	var out []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		out = append(out, strings.TrimPrefix(line, `account "acct": `))
	}
	return out
}

func TestEndpoints(t *testing.T) {
	const portal = "endpoint: it is not a URL like https://NAME.queue.core.windows.net"
	for name, c := range map[string]struct {
		endpoint, account string
		url, storage      string
		fault             string
	}{
		"an account":                          {endpoint: "https://acct.queue.core.windows.net", url: "https://acct.queue.core.windows.net", storage: "acct"},
		"with a trailing slash":               {endpoint: "https://acct.queue.core.windows.net/", url: "https://acct.queue.core.windows.net", storage: "acct"},
		"with two":                            {endpoint: "https://acct.queue.core.windows.net//", url: "https://acct.queue.core.windows.net", storage: "acct"},
		"in capitals, with spaces around":     {endpoint: " HTTPS://ACCT.Queue.Core.Windows.NET/ ", url: "https://acct.queue.core.windows.net", storage: "acct"},
		"with the port that goes without say": {endpoint: "https://acct.queue.core.windows.net:443/", url: "https://acct.queue.core.windows.net", storage: "acct"},
		"a private link":                      {endpoint: "https://acct.privatelink.queue.core.windows.net", url: "https://acct.privatelink.queue.core.windows.net", storage: "acct"},
		"a DNS zone":                          {endpoint: "https://acct.z27.queue.storage.azure.net", url: "https://acct.z27.queue.storage.azure.net", storage: "acct"},
		"China":                               {endpoint: "https://acct.queue.core.chinacloudapi.cn", url: "https://acct.queue.core.chinacloudapi.cn", storage: "acct"},
		"US government":                       {endpoint: "https://acct.queue.core.usgovcloudapi.net", url: "https://acct.queue.core.usgovcloudapi.net", storage: "acct"},
		"Azure Stack":                         {endpoint: "https://acct.queue.local.azurestack.external", url: "https://acct.queue.local.azurestack.external", storage: "acct"},
		"the account named as well":           {endpoint: "https://acct.queue.core.windows.net", account: "acct", url: "https://acct.queue.core.windows.net", storage: "acct"},
		"a queue's URL":                       {endpoint: "https://acct.queue.core.windows.net/orders", url: "https://acct.queue.core.windows.net", storage: "acct"},
		"the emulator":                        {endpoint: "http://127.0.0.1:10001/devstoreaccount1", url: "http://127.0.0.1:10001/devstoreaccount1", storage: "devstoreaccount1"},
		"the emulator with a slash":           {endpoint: "http://127.0.0.1:10001/devstoreaccount1/", url: "http://127.0.0.1:10001/devstoreaccount1", storage: "devstoreaccount1"},
		"the emulator, a queue's URL":         {endpoint: "http://localhost:10001/devstoreaccount1/orders", url: "http://localhost:10001/devstoreaccount1", storage: "devstoreaccount1"},
		"the emulator in a container":         {endpoint: "http://azurite:10001/devstoreaccount1", url: "http://azurite:10001/devstoreaccount1", storage: "devstoreaccount1"},
		"the emulator in a cluster":           {endpoint: "http://azurite.dev.svc.cluster.local:10001/devstoreaccount1", url: "http://azurite.dev.svc.cluster.local:10001/devstoreaccount1", storage: "devstoreaccount1"},
		"the emulator, production style":      {endpoint: "http://devstoreaccount1.queue.localhost:10001", url: "http://devstoreaccount1.queue.localhost:10001", storage: "devstoreaccount1"},
		"the emulator over IPv6":              {endpoint: "http://[::1]:10001/devstoreaccount1", url: "http://[::1]:10001/devstoreaccount1", storage: "devstoreaccount1"},
		"another account in an emulator":      {endpoint: "http://127.0.0.1:10001/other1", url: "http://127.0.0.1:10001/other1", storage: "other1"},
		"a custom domain":                     {endpoint: "https://queues.example.com", account: "acct", url: "https://queues.example.com", storage: "acct"},
		"a custom domain's queue":             {endpoint: "https://queues.example.com/orders", account: "acct", url: "https://queues.example.com", storage: "acct"},
		"a custom domain like Azure's":        {endpoint: "https://jobs.queue.example.com", account: "acct", url: "https://jobs.queue.example.com", storage: "acct"},

		"empty but for spaces":        {endpoint: " ", fault: "endpoint: it is empty: give https://NAME.queue.core.windows.net"},
		"without a scheme":            {endpoint: "acct.queue.core.windows.net/", fault: "endpoint: it has no scheme: write https://acct.queue.core.windows.net"},
		"a name":                      {endpoint: "acct", fault: portal},
		"a host and no more":          {endpoint: "https://", fault: portal},
		"not a URL":                   {endpoint: "https://acct .queue", fault: portal},
		"ftp":                         {endpoint: "ftp://acct.queue.core.windows.net", fault: "endpoint: its scheme is neither https nor http: the queue service is reached as https://NAME.queue.core.windows.net"},
		"a blob endpoint":             {endpoint: "https://acct.blob.core.windows.net/", fault: "endpoint: acct.blob.core.windows.net is a blob endpoint: use https://acct.queue.core.windows.net"},
		"a table endpoint":            {endpoint: "https://acct.table.core.windows.net", fault: "endpoint: acct.table.core.windows.net is a table endpoint: use https://acct.queue.core.windows.net"},
		"a file endpoint":             {endpoint: "https://acct.file.core.windows.net", fault: "endpoint: acct.file.core.windows.net is a file endpoint: use https://acct.queue.core.windows.net"},
		"a dfs endpoint in China":     {endpoint: "https://acct.dfs.core.chinacloudapi.cn", fault: "endpoint: acct.dfs.core.chinacloudapi.cn is a dfs endpoint: use https://acct.queue.core.chinacloudapi.cn"},
		"a web endpoint":              {endpoint: "https://acct.z6.web.core.windows.net", fault: "endpoint: acct.z6.web.core.windows.net is a web endpoint: use https://acct.queue.core.windows.net"},
		"a blob endpoint in a zone":   {endpoint: "https://acct.z27.blob.storage.azure.net", fault: "endpoint: acct.z27.blob.storage.azure.net is a blob endpoint: use https://acct.z27.queue.storage.azure.net"},
		"the secondary":               {endpoint: "https://acct-secondary.queue.core.windows.net", fault: "endpoint: acct-secondary.queue.core.windows.net is the account's read-only secondary endpoint: use https://acct.queue.core.windows.net"},
		"Service Bus":                 {endpoint: "sb://acct.servicebus.windows.net/", fault: "endpoint: it is a Service Bus or Event Hubs endpoint: qwatch reads Azure Storage queues, https://NAME.queue.core.windows.net"},
		"Service Bus over https":      {endpoint: "https://acct.servicebus.windows.net/", fault: "endpoint: acct.servicebus.windows.net is a Service Bus or Event Hubs endpoint: qwatch reads Azure Storage queues, https://NAME.queue.core.windows.net"},
		"no account at the emulator":  {endpoint: "http://127.0.0.1:10001", fault: "endpoint: it lacks the account: write http://127.0.0.1:10001/devstoreaccount1"},
		"an account that cannot be":   {endpoint: "https://my_acct.queue.core.windows.net", fault: "endpoint: its host is not a host name"},
		"an account too long":         {endpoint: "https://" + strings.Repeat("a", 25) + ".queue.core.windows.net", fault: `endpoint: "` + strings.Repeat("a", 25) + `" is not a storage account name (3 to 24 lower-case letters and digits)`},
		"another account than named":  {endpoint: "https://acct.queue.core.windows.net", account: "other", fault: `endpoint: it is the endpoint of account "acct", but accountName is "other": make them agree, or remove accountName`},
		"another in the path":         {endpoint: "http://127.0.0.1:10001/devstoreaccount1", account: "other", fault: `endpoint: it is the endpoint of account "devstoreaccount1", but accountName is "other": make them agree`},
		"a path beyond the queue":     {endpoint: "https://acct.queue.core.windows.net/orders/messages", fault: "endpoint: its path goes beyond a queue's name: end it after the host, or after the queue's name"},
		"a path that is no queue":     {endpoint: "https://acct.queue.core.windows.net/Or_ders", fault: "endpoint: its path is not a queue's name: end it after the host"},
		"a query":                     {endpoint: "https://acct.queue.core.windows.net/?comp=list", fault: "endpoint: it has a query that is not a SAS: end it before the ?"},
		"a question mark":             {endpoint: "https://acct.queue.core.windows.net/?", fault: "endpoint: it has a query that is not a SAS: end it before the ?"},
		"a SAS":                       {endpoint: "https://acct.queue.core.windows.net/?" + accountSAS, fault: "endpoint: it carries a SAS: put the whole URL in sas (or sasFile), where it is kept secret"},
		"a fragment":                  {endpoint: "https://acct.queue.core.windows.net/#top", fault: "endpoint: it has a part after #: remove it"},
		"a password":                  {endpoint: "https://me:secret@acct.queue.core.windows.net", fault: "endpoint: it has a user name or password before the host: remove them"},
		"a connection string":         {endpoint: "AccountName=acct;AccountKey=" + key, fault: "endpoint: it is a connection string: put it in connectionString (or connectionStringFile)"},
		"the emulator's short string": {endpoint: "UseDevelopmentStorage=true", fault: "endpoint: it is a connection string: put it in connectionString (or connectionStringFile)"},
		"a custom domain that does not tell the account": {endpoint: "https://queues.example.com", fault: "accountKey: the endpoint does not tell the storage account that the key belongs to: set accountName"},
		"an account name that cannot be":                 {endpoint: "https://queues.example.com", account: "Acct", fault: "accountName: it is not a storage account name (3 to 24 lower-case letters and digits)\naccountKey: the endpoint does not tell the storage account that the key belongs to: set accountName"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := queue.AccountConfig{Endpoint: c.endpoint, AccountName: c.account, AccountKey: key}
			if got := strings.Join(refused(t, cfg), "\n"); got != c.fault {
				t.Fatalf("\n got %s\nwant %s", got, c.fault)
			}
			if c.fault != "" {
				return
			}
			cfg.Name = "acct"
			a := account(t, cfg)
			if a.URL() != c.url || a.StorageAccount() != c.storage {
				t.Errorf("got %s, account %s; want %s, %s", a.URL(), a.StorageAccount(), c.url, c.storage)
			}
		})
	}
}

func TestConnectionStrings(t *testing.T) {
	const (
		public = "https://acct.queue.core.windows.net"
		local  = "http://127.0.0.1:10001/devstoreaccount1"
	)
	for name, c := range map[string]struct{ text, url, fault string }{
		"the portal's":                    {text: "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=" + key + ";EndpointSuffix=core.windows.net", url: public},
		"name and key alone":              {text: "AccountName=acct;AccountKey=" + key, url: public},
		"with semicolons at the end":      {text: "AccountName=acct;AccountKey=" + key + ";;", url: public},
		"with spaces and line breaks":     {text: " \n AccountName = acct ;\r\n AccountKey = " + key + " ; \n", url: public},
		"in any case":                     {text: "accountname=acct;ACCOUNTKEY=" + key + ";defaultendpointsprotocol=HTTPS;endpointsuffix=Core.Windows.Net", url: public},
		"over http":                       {text: "DefaultEndpointsProtocol=http;AccountName=acct;AccountKey=" + key, url: "http://acct.queue.core.windows.net"},
		"China":                           {text: "AccountName=acct;AccountKey=" + key + ";EndpointSuffix=core.chinacloudapi.cn", url: "https://acct.queue.core.chinacloudapi.cn"},
		"US government":                   {text: "AccountName=acct;AccountKey=" + key + ";EndpointSuffix=core.usgovcloudapi.net;", url: "https://acct.queue.core.usgovcloudapi.net"},
		"an endpoint of its own":          {text: "AccountName=acct;AccountKey=" + key + ";QueueEndpoint=https://queues.example.com/;BlobEndpoint=https://blobs.example.com", url: "https://queues.example.com"},
		"the key's name from the host":    {text: "AccountKey=" + key + ";QueueEndpoint=https://acct.queue.core.windows.net/", url: public},
		"the emulator's long one":         {text: "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=" + key + ";BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;QueueEndpoint=http://127.0.0.1:10001/devstoreaccount1;TableEndpoint=http://127.0.0.1:10002/devstoreaccount1;", url: local},
		"the emulator's short one":        {text: "UseDevelopmentStorage=true", url: local},
		"the same, ended and capitalised": {text: "usedevelopmentstorage=True;", url: local},
		"the emulator elsewhere":          {text: "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://host.docker.internal", url: "http://host.docker.internal:10001/devstoreaccount1"},
		"the emulator elsewhere, slash":   {text: "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite/", url: "http://azurite:10001/devstoreaccount1"},
		"a SAS":                           {text: "QueueEndpoint=https://acct.queue.core.windows.net/;SharedAccessSignature=" + accountSAS, url: public},
		"a SAS with a question mark":      {text: "QueueEndpoint=https://acct.queue.core.windows.net/;SharedAccessSignature=?" + accountSAS, url: public},
		"a SAS first":                     {text: "SharedAccessSignature=" + accountSAS + ";QueueEndpoint=https://acct.queue.core.windows.net;BlobEndpoint=https://acct.blob.core.windows.net/", url: public},
		"a SAS and a name":                {text: "AccountName=acct;SharedAccessSignature=" + accountSAS, url: public},
		"a queue's URL":                   {text: "AccountKey=" + key + ";QueueEndpoint=https://acct.queue.core.windows.net/orders", url: public},

		"empty but for spaces":      {text: " ; ", fault: "it is empty"},
		"in quotation marks":        {text: `"AccountName=acct;AccountKey=` + key + `"`, fault: "it is in quotation marks: remove them"},
		"an endpoint":               {text: "https://acct.queue.core.windows.net/", fault: "it is an endpoint, not a connection string: put it in endpoint, with accountKey, sas or identity"},
		"a SAS URL":                 {text: "https://acct.queue.core.windows.net/?" + accountSAS, fault: "it is a SAS URL, not a connection string: put it in sas (or sasFile)"},
		"a bare SAS":                {text: accountSAS, fault: "it is a SAS, not a connection string: put it in sas (or sasFile), with endpoint"},
		"a bare SAS with a mark":    {text: "?" + accountSAS, fault: "it is a SAS, not a connection string: put it in sas (or sasFile), with endpoint"},
		"Service Bus":               {text: "Endpoint=sb://acct.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=" + key, fault: "it is a Service Bus or Event Hubs connection string: qwatch reads Azure Storage queues"},
		"a word":                    {text: "secretword", fault: "it is not a connection string: settings are written name=value and separated by semicolons"},
		"a bare key":                {text: key, fault: "its part 1 is not a setting of a storage connection string: is it cut off, or another service's?"},
		"a part without =":          {text: "AccountName=acct;secretword;AccountKey=" + key, fault: "its part 2 has no =: settings are written name=value and separated by semicolons"},
		"a misspelt setting":        {text: "AccountName=acct;AcountKey=" + key, fault: "its part 2 is not a setting of a storage connection string: is it cut off, or another service's?"},
		"a setting twice":           {text: "AccountName=acct;AccountKey=" + key + ";accountname=other", fault: "it has AccountName twice"},
		"an empty key":              {text: "AccountName=acct;AccountKey=", fault: "its AccountKey is empty"},
		"an empty name":             {text: "AccountName=;AccountKey=" + key, fault: "its AccountName is empty"},
		"nothing to sign with":      {text: "DefaultEndpointsProtocol=https;AccountName=acct", fault: "it has neither AccountKey nor SharedAccessSignature: to sign in with an identity set endpoint and identity instead"},
		"an endpoint setting alone": {text: "QueueEndpoint=https://acct.queue.core.windows.net", fault: "it has neither AccountKey nor SharedAccessSignature: to sign in with an identity set endpoint and identity instead"},
		"two ways to sign":          {text: "AccountName=acct;AccountKey=" + key + ";SharedAccessSignature=" + accountSAS, fault: "it has both AccountKey and SharedAccessSignature: keep one"},
		"no account":                {text: "AccountKey=" + key, fault: "it has neither AccountName nor QueueEndpoint: the account is not known"},
		"blobs only":                {text: "BlobEndpoint=https://acct.blob.core.windows.net/;SharedAccessSignature=" + accountSAS, fault: "it has endpoints of other services but no QueueEndpoint: copy the connection string again, with the queue service, or add QueueEndpoint"},
		"no name for the key":       {text: "AccountKey=" + key + ";QueueEndpoint=https://queues.example.com", fault: "it has an AccountKey but no AccountName, and its QueueEndpoint does not tell it: add AccountName"},
		"a broken key":              {text: "AccountName=acct;AccountKey=not-base64!", fault: "AccountKey: it is not base64: copy the key again, as a whole"},
		"a cut key":                 {text: "AccountName=acct;AccountKey=" + key[:30], fault: "AccountKey: it is not base64: copy the key again, as a whole"},
		"a blob endpoint":           {text: "AccountName=acct;AccountKey=" + key + ";QueueEndpoint=https://acct.blob.core.windows.net", fault: "QueueEndpoint: acct.blob.core.windows.net is a blob endpoint: use https://acct.queue.core.windows.net"},
		"another account's host":    {text: "AccountName=acct;AccountKey=" + key + ";QueueEndpoint=https://other.queue.core.windows.net", fault: `QueueEndpoint: it is the endpoint of account "other", but accountName is "acct": make them agree, or remove accountName`},
		"a SAS in the endpoint":     {text: "AccountName=acct;AccountKey=" + key + ";QueueEndpoint=https://acct.queue.core.windows.net?" + accountSAS, fault: "QueueEndpoint: it carries a SAS: put the whole URL in sas (or sasFile), where it is kept secret"},
		"a name with a host in it":  {text: "AccountName=acct.queue;AccountKey=" + key, fault: "its AccountName is not a storage account name (3 to 24 lower-case letters and digits)"},
		"a suffix that is a URL":    {text: "AccountName=acct;AccountKey=" + key + ";EndpointSuffix=https://core.windows.net/", fault: "its EndpointSuffix is not a host name, such as core.windows.net"},
		"ftp":                       {text: "DefaultEndpointsProtocol=ftp;AccountName=acct;AccountKey=" + key, fault: "its DefaultEndpointsProtocol is neither https nor http"},
		"no emulator":               {text: "UseDevelopmentStorage=false", fault: "its UseDevelopmentStorage is not true: remove it, or set it to true for the emulator"},
		"emulator and more":         {text: "UseDevelopmentStorage=true;AccountName=acct", fault: "UseDevelopmentStorage=true stands alone, but AccountName is set too: remove one of them"},
		"proxy without emulator":    {text: "DevelopmentStorageProxyUri=http://azurite;AccountName=acct;AccountKey=" + key, fault: "DevelopmentStorageProxyUri is for the emulator: it goes with UseDevelopmentStorage=true"},
		"proxy with a port":         {text: "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite:10001", fault: "its DevelopmentStorageProxyUri is not a scheme and a host without a port, such as http://host.docker.internal"},
		"a SAS for blobs":           {text: "QueueEndpoint=https://acct.queue.core.windows.net;SharedAccessSignature=" + strings.ReplaceAll(accountSAS, "ss=bq", "ss=b"), fault: "SharedAccessSignature: it is not for the queue service: its services (ss=) lack q"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := queue.AccountConfig{ConnectionString: queue.Secret(c.text)}
			want := c.fault
			if want != "" {
				want = "connectionString: " + want
			}
			if got := strings.Join(refused(t, cfg), "\n"); got != want {
				t.Fatalf("\n got %s\nwant %s", got, want)
			}
			if c.fault != "" {
				return
			}
			cfg.Name = "acct"
			a := account(t, cfg)
			if a.URL() != c.url {
				t.Errorf("got %s, want %s", a.URL(), c.url)
			}
		})
	}
}

func TestSharedAccessSignatures(t *testing.T) {
	const at = "https://acct.queue.core.windows.net"
	without := func(param string) string {
		var kept []string
		for p := range strings.SplitSeq(accountSAS, "&") {
			if !strings.HasPrefix(p, param+"=") {
				kept = append(kept, p)
			}
		}
		return strings.Join(kept, "&")
	}
	for name, c := range map[string]struct {
		sas      string
		endpoint string
		fault    string
	}{
		"an account's":              {sas: accountSAS, endpoint: at},
		"with a question mark":      {sas: "?" + accountSAS, endpoint: at},
		"with spaces around":        {sas: "\n ?" + accountSAS + " \n", endpoint: at},
		"a queue's":                 {sas: queueSAS, endpoint: at},
		"of a stored access policy": {sas: "sv=2024-11-04&si=readers&" + sig, endpoint: at},
		"a URL":                     {sas: at + "/?" + accountSAS},
		"a queue's URL":             {sas: at + "/orders?" + queueSAS},
		"a URL, and its endpoint":   {sas: at + "/?" + accountSAS, endpoint: at},
		"signature not escaped":     {sas: "sv=2024-11-04&sp=raup&se=2999-01-01&sig=+/+zNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=", endpoint: at},
		"expired":                   {sas: "sv=2024-11-04&sp=raup&se=2001-01-01T00:00Z&" + sig, endpoint: at},
		"for http too":              {sas: queueSAS + "&spr=https,http", endpoint: "http://127.0.0.1:10001/devstoreaccount1"},
		"empty":                     {sas: " ? ", endpoint: at, fault: "sas: it is empty"},
		"a word":                    {sas: "secretword", endpoint: at, fault: "sas: it has no signature (sig=): copy it again, as a whole"},
		"a URL without one":         {sas: at, fault: "sas: it is a URL without a SAS after a ?"},
		"without a signature":       {sas: without("sig"), endpoint: at, fault: "sas: it has no signature (sig=): copy it again, as a whole"},
		"cut off":                   {sas: accountSAS[:len(accountSAS)-6], endpoint: at, fault: "sas: its signature (sig=) is not 32 bytes in base64: it is cut off, or URL-encoded twice"},
		"cut off in an escape":      {sas: accountSAS[:len(accountSAS)-1], endpoint: at, fault: "sas: it has a broken % escape: was it cut off?"},
		"escaped twice":             {sas: strings.ReplaceAll(accountSAS, "%", "%25"), endpoint: at, fault: "sas: its signature (sig=) is not 32 bytes in base64: it is cut off, or URL-encoded twice"},
		"from a web page":           {sas: strings.ReplaceAll(accountSAS, "&", "&amp;"), endpoint: at, fault: "sas: it has &amp; where & belongs: it was copied out of HTML or XML"},
		"in quotation marks":        {sas: `"` + accountSAS + `"`, endpoint: at, fault: "sas: it has quotation marks in it: remove them"},
		"wrapped":                   {sas: accountSAS[:20] + "\n" + accountSAS[20:], endpoint: at, fault: "sas: it has a character that no SAS has (a space, a line break or one that is not ASCII): was it wrapped or cut?"},
		"a connection string":       {sas: "AccountName=acct;AccountKey=" + key, endpoint: at, fault: "sas: it is a connection string: put it in connectionString (or connectionStringFile)"},
		"without a version":         {sas: without("sv"), endpoint: at, fault: "sas: it has no version (sv=): copy it again, as a whole"},
		"without an expiry":         {sas: without("se"), endpoint: at, fault: "sas: it has no expiry (se=): copy it again, as a whole"},
		"expiry that is no time":    {sas: "sv=2024-11-04&sp=raup&se=soon&" + sig, endpoint: at, fault: "sas: its expiry (se=) is not a time"},
		"start that is no time":     {sas: queueSAS + "&st=now", endpoint: at, fault: "sas: its start (st=) is not a time"},
		"a parameter twice":         {sas: queueSAS + "&sp=r", endpoint: at, fault: "sas: it has a parameter twice"},
		"for blobs":                 {sas: strings.ReplaceAll(accountSAS, "ss=bq", "ss=bf"), endpoint: at, fault: "sas: it is not for the queue service: its services (ss=) lack q"},
		"for the service alone":     {sas: strings.ReplaceAll(accountSAS, "srt=sco", "srt=s"), endpoint: at, fault: "sas: it is not for queues or messages: its resource types (srt=) need c for queues and o for messages"},
		"for a container":           {sas: queueSAS + "&sr=c", endpoint: at, fault: "sas: it is for a blob, a container or a file (sr=): create one for the queue service"},
		"for a table":               {sas: queueSAS + "&tn=orders", endpoint: at, fault: "sas: it is for a table (tn=): create one for the queue service"},
		"granting nothing":          {sas: without("sp"), endpoint: at, fault: "sas: it grants nothing: it has neither permissions (sp=) nor a stored access policy (si=)"},
		"granting nothing of use":   {sas: strings.ReplaceAll(accountSAS, "sp=rwdlacup", "sp=xtf"), endpoint: at, fault: "sas: its permissions (sp=) grant nothing on a queue: read r, add a, update u and process p are those that count"},
		"for https only, over http": {sas: accountSAS, endpoint: "http://127.0.0.1:10001/devstoreaccount1", fault: "sas: it is for https only (spr=), but the endpoint is http"},
		"without an endpoint":       {sas: accountSAS, fault: "sas: it needs endpoint, such as https://NAME.queue.core.windows.net"},
		"a URL of another account":  {sas: "https://other.queue.core.windows.net/?" + accountSAS, endpoint: at, fault: "sas: its URL is another than endpoint: remove endpoint, or make them agree"},
		"a blob's URL":              {sas: "https://acct.blob.core.windows.net/c?" + accountSAS, fault: "sas: its URL: acct.blob.core.windows.net is a blob endpoint: use https://acct.queue.core.windows.net"},
		"another queue's URL":       {sas: at + "/orders?" + queueSAS, endpoint: at + "/bills", fault: "sas: its URL is another than endpoint: remove endpoint, or make them agree"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(refused(t, queue.AccountConfig{SAS: queue.Secret(c.sas), Endpoint: c.endpoint}), "\n")
			if got != c.fault {
				t.Errorf("\n got %s\nwant %s", got, c.fault)
			}
		})
	}
}

func TestEveryFaultOfAnAccountIsToldAtOnce(t *testing.T) {
	_, err := queue.NewAccount(queue.AccountConfig{
		Endpoint: "https://acct.blob.core.windows.net", AccountName: "No", AccountKey: "?", SAS: "?",
		MaxConnections: -1, Timeout: -time.Second, TryTimeout: -time.Second,
	})
	want := `account "": name: it is empty: give the account a label
account "": maxConnections: -1 is negative
account "": timeout: -1s is negative: every call has a deadline
account "": tryTimeout: -1s is negative: every try has a deadline
account "": accountName: it is not a storage account name (3 to 24 lower-case letters and digits)
account "": endpoint: acct.blob.core.windows.net is a blob endpoint: use https://acct.queue.core.windows.net
account "": sas: accountKey and sas are set: keep one way to sign in`
	if diff := cmp.Diff(want, message(err)); diff != "" {
		t.Error(diff)
	}
}

func TestExactlyOneWayToSignIn(t *testing.T) {
	const at = "https://acct.queue.core.windows.net"
	for name, c := range map[string]struct {
		cfg  queue.AccountConfig
		want []string
	}{
		"nothing":              {queue.AccountConfig{}, []string{"connectionString: there is no sign-in: set connectionString, or endpoint with accountKey, sas or identity"}},
		"an endpoint alone":    {queue.AccountConfig{Endpoint: at}, []string{"endpoint: an endpoint alone does not sign in: add accountKey, sas or identity"}},
		"a key alone":          {queue.AccountConfig{AccountKey: key}, []string{"endpoint: accountKey needs it: add https://NAME.queue.core.windows.net"}},
		"a key and a name":     {queue.AccountConfig{AccountKey: key, AccountName: "acct"}, []string{"endpoint: accountKey needs it: add https://acct.queue.core.windows.net"}},
		"an identity alone":    {queue.AccountConfig{Identity: &queue.Identity{}}, []string{"endpoint: identity needs it: add https://NAME.queue.core.windows.net"}},
		"a value and its file": {queue.AccountConfig{Endpoint: at, SAS: accountSAS, SASFile: "f"}, []string{"sasFile: sas and sasFile are set: keep one way to sign in"}},
		"three":                {queue.AccountConfig{Endpoint: at, SAS: accountSAS, AccountKey: key, Identity: &queue.Identity{}}, []string{"sas: accountKey, sas and identity are set: keep one way to sign in"}},
		"a connection string and endpoint that agree": {queue.AccountConfig{Endpoint: at + "/", ConnectionString: "AccountName=acct;AccountKey=" + key}, nil},
		"that do not":                {queue.AccountConfig{Endpoint: at, ConnectionString: "AccountName=other;AccountKey=" + key}, []string{"connectionString: it is for another endpoint than endpoint says: remove endpoint, or make them agree"}},
		"a name that contradicts":    {queue.AccountConfig{AccountName: "other", ConnectionString: "AccountName=acct;AccountKey=" + key}, []string{`connectionString: its AccountName contradicts accountName "other": make them agree, or remove accountName`}},
		"a file that is not there":   {queue.AccountConfig{Endpoint: at, AccountKeyFile: "testdata/none"}, []string{"accountKeyFile: open testdata/none: no such file or directory"}},
		"an identity over http":      {queue.AccountConfig{Endpoint: "http://acct.queue.core.windows.net", Identity: &queue.Identity{}}, []string{"endpoint: an identity's token is only sent over https, but the endpoint is http: use https, or sign in with accountKey"}},
		"an identity of no type":     {queue.AccountConfig{Endpoint: at, Identity: &queue.Identity{Type: "robot"}}, []string{`identity.type: "robot" is not one of default, workload, managed`}},
		"a tenant for a managed one": {queue.AccountConfig{Endpoint: at, Identity: &queue.Identity{Type: queue.IdentityManaged, TenantID: "t"}}, []string{"identity.tenantId: a managed identity is of one tenant: remove it"}},
		"a client for the chain":     {queue.AccountConfig{Endpoint: at, Identity: &queue.Identity{ClientID: "c"}}, []string{"identity.clientId: the default chain takes it from AZURE_CLIENT_ID: set that, or type workload or managed"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, refused(t, c.cfg)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFaultsOfEndpointAndSecretAreBothTold(t *testing.T) {
	const blob = "https://acct.blob.core.windows.net"
	const fault = "endpoint: acct.blob.core.windows.net is a blob endpoint: use https://acct.queue.core.windows.net"
	for name, c := range map[string]struct {
		cfg  queue.AccountConfig
		want []string
	}{
		"a key":               {queue.AccountConfig{Endpoint: blob, AccountKey: "???"}, []string{fault, "accountKey: it is not base64: copy the key again, as a whole"}},
		"a good key":          {queue.AccountConfig{Endpoint: blob, AccountKey: key}, []string{fault}},
		"a key, no endpoint":  {queue.AccountConfig{AccountKey: "???"}, []string{"endpoint: accountKey needs it: add https://NAME.queue.core.windows.net", "accountKey: it is not base64: copy the key again, as a whole"}},
		"a SAS":               {queue.AccountConfig{Endpoint: blob, SAS: "secretword"}, []string{fault, "sas: it has no signature (sig=): copy it again, as a whole"}},
		"a connection string": {queue.AccountConfig{Endpoint: blob, ConnectionString: "AccountName=acct"}, []string{fault, "connectionString: it has neither AccountKey nor SharedAccessSignature: to sign in with an identity set endpoint and identity instead"}},
		"an identity":         {queue.AccountConfig{Endpoint: blob, Identity: &queue.Identity{Type: "x"}}, []string{fault, `identity.type: "x" is not one of default, workload, managed`}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, refused(t, c.cfg)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestQueueNameMustNotContradictTheURL(t *testing.T) {
	a := account(t, queue.AccountConfig{Name: "acct", Endpoint: "https://acct.queue.core.windows.net/orders/", AccountKey: key})
	if _, err := a.Queue("orders", queue.Config{}); err != nil {
		t.Errorf("the URL's own queue: %v", err)
	}
	_, err := a.Queue("bills", queue.Config{})
	want := `queue acct/bills: the account's endpoint is the URL of queue "orders": end the endpoint after the host, or name that queue`
	if message(err) != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
}

func TestAccountPrintsItsNameOnly(t *testing.T) {
	var b strings.Builder
	a := account(t, queue.AccountConfig{Name: "acct", ConnectionString: "AccountName=acct;AccountKey=" + key, Logger: slog.New(slog.NewTextHandler(&b, nil))})
	q, err := a.Queue("orders", queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewJSONHandler(&b, nil)).Info("m", "a", a, "q", q)
	fmt.Fprintf(&b, "%v %+v %#v %s %v %+v %#v", a, a, a, a, q, q, q)
	fmt.Fprintf(&b, "%v %+v %#v", *a, *a, *a)
	if strings.Contains(b.String(), key[:20]) {
		t.Errorf("the key is shown: %s", b.String())
	}
}
