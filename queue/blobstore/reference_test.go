package blobstore

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/queue"
)

func TestReferences(t *testing.T) {
	https := &Store{account: "acct", cfg: Config{Container: "bodies"}, container: "https://acme.blob.core.windows.net/bodies"}
	local := &Store{account: "acct", cfg: Config{Container: "bodies"}, container: "http://127.0.0.1:10000/devstoreaccount1/bodies"}
	const own = "https://acme.blob.core.windows.net/bodies/"
	for name, tc := range map[string]struct {
		store *Store
		ref   string // JSON, or without quotes a string
		want  string // address; "" when it is refused
		why   string
	}{
		"its own":                       {https, own + "abc123", own + "abc123", ""},
		"folders":                       {https, own + "2026/11/a.b_c~d-e", own + "2026/11/a.b_c~d-e", ""},
		"capitals in the host":          {https, "HTTPS://ACME.Blob.core.windows.net/bodies/x", own + "x", ""},
		"the scheme's port":             {https, "https://acme.blob.core.windows.net:443/bodies/x", own + "x", ""},
		"an emulator's":                 {local, "http://127.0.0.1:10000/devstoreaccount1/bodies/x", local.container + "/x", ""},
		"another container":             {https, "https://acme.blob.core.windows.net/secrets/x", "", "another container"},
		"a container that starts alike": {https, "https://acme.blob.core.windows.net/bodies2/x", "", "another container"},
		"capitals in the container":     {https, "https://acme.blob.core.windows.net/Bodies/x", "", "another container"},
		"the container itself":          {https, "https://acme.blob.core.windows.net/bodies", "", "another container"},
		"the container with a slash":    {https, own, "", "plain blob name"},
		"another account":               {https, "https://evil.blob.core.windows.net/bodies/x", "", "another account"},
		"another service":               {https, "https://acme.file.core.windows.net/bodies/x", "", "another account"},
		"the secondary endpoint":        {https, "https://acme-secondary.blob.core.windows.net/bodies/x", "", "another account"},
		"another host":                  {https, "https://169.254.169.254/bodies/x", "", "another account"},
		"a host that ends alike":        {https, "https://evil.example/acme.blob.core.windows.net/bodies/x", "", "another account"},
		"a trailing dot":                {https, "https://acme.blob.core.windows.net./bodies/x", "", "another account"},
		"another scheme":                {https, "http://acme.blob.core.windows.net/bodies/x", "", "another account"},
		"a file":                        {https, "file:///etc/passwd", "", "not the address"},
		"another port":                  {https, "https://acme.blob.core.windows.net:8443/bodies/x", "", "another account"},
		"another account of emulators":  {local, "http://127.0.0.1:10000/other/bodies/x", "", "another container"},
		"a SAS":                         {https, own + "x?sv=2026&sig=abc", "", "such as a SAS"},
		"an empty query":                {https, own + "x?", "", "such as a SAS"},
		"a snapshot":                    {https, own + "x?snapshot=2026-01-01T00:00:00Z", "", "such as a SAS"},
		"a fragment":                    {https, own + "x#y", "", "such as a SAS"},
		"an empty fragment":             {https, own + "x#", "", "such as a SAS"},
		"a user":                        {https, "https://acme.blob.core.windows.net@evil.example/bodies/x", "", "such as a SAS"},
		"dots":                          {https, own + "../secrets/x", "", "plain blob name"},
		"dots in the middle":            {https, own + "a/../../secrets/x", "", "plain blob name"},
		"one dot":                       {https, own + "./x", "", "plain blob name"},
		"three dots":                    {https, own + ".../x", "", "plain blob name"},
		"escaped dots":                  {https, own + "%2e%2e/secrets/x", "", "plain blob name"},
		"an escaped slash":              {https, own + "a%2Fb", "", "plain blob name"},
		"an escaped container":          {https, "https://acme.blob.core.windows.net/%62odies/x", "", "another container"},
		"a backslash":                   {https, own + `a\\..\\b`, "", "plain blob name"},
		"two slashes":                   {https, own + "/x", "", "plain blob name"},
		"a space":                       {https, own + "a b", "", "plain blob name"},
		"a line break":                  {https, own + `a\r\nHost: evil`, "", "not the address"},
		"a NUL":                         {https, own + `a\u0000`, "", "not the address"},
		"letters of other scripts":      {https, own + "ａ", "", "plain blob name"},
		"a name over 1,024 bytes":       {https, own + strings.Repeat("a", 1025), "", "plain blob name"},
		"beyond reason":                 {https, own + strings.Repeat("a", 4000), "", "not the address"},
		"no address":                    {https, "hello", "", "not the address"},
		"nothing":                       {https, "", "", "not the address"},
		"an object":                     {https, `{"container":"bodies","name":"x"}`, "", "not the address"},
		"null":                          {https, `null`, "", "not the address"},
		"a number":                      {https, `5`, "", "not the address"},
	} {
		t.Run(name, func(t *testing.T) {
			ref := tc.ref
			if ref != "null" && ref != "5" && !strings.HasPrefix(ref, "{") {
				ref = `"` + ref + `"`
			}
			got, err := tc.store.address(json.RawMessage(ref))
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Fatalf("address %q, error %v, want %q", got, err, tc.want)
			}
			if err != nil && (!errors.Is(err, queue.ErrUnreadable) || !strings.Contains(err.Error(), tc.why)) {
				t.Errorf("error %v, want %q", err, tc.why)
			}
			if err != nil && strings.Contains(err.Error(), "sig=") {
				t.Errorf("a signature in %v", err)
			}
		})
	}
}

func FuzzReference(f *testing.F) {
	for _, s := range []string{
		`"https://acme.blob.core.windows.net/bodies/abc"`, `"https://acme.blob.core.windows.net/bodies/a/../b"`, `"https://u@acme.blob.core.windows.net:443/bodies/a%2e"`,
		`"https://acme.blob.core.windows.net/bodies/x?sig=1"`, `{}`, `"`, `"//acme.blob.core.windows.net/bodies/x"`,
	} {
		f.Add([]byte(s))
	}
	s := &Store{account: "acct", cfg: Config{Container: "bodies"}, container: "https://acme.blob.core.windows.net/bodies"}
	f.Fuzz(func(t *testing.T, ref []byte) {
		address, err := s.address(ref)
		if err != nil {
			if !errors.Is(err, queue.ErrUnreadable) || address != "" {
				t.Fatalf("%q beside %v", address, err)
			}
			return
		}
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "https" || u.Host != "acme.blob.core.windows.net" || u.RawQuery != "" || u.User != nil ||
			!strings.HasPrefix(u.Path, "/bodies/") || u.EscapedPath() != u.Path || u.JoinPath().Path != u.Path {
			t.Fatalf("%q is read as %q", ref, address)
		}
	})
}
