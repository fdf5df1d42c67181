package main

import (
	"bytes"
	"testing"

	"github.com/qwatch/qwatch/internal/story"
)

// What why prints can be copied: it asks the same qwatch, and holds no secret.
func TestTheNextCommandAsksTheSameQwatch(t *testing.T) {
	t.Parallel()
	const list, doctor, curl = "qwatch poison list a/q", "qwatch doctor a", "curl -sS http://handler"
	for name, tt := range map[string]struct {
		server  server
		command string
		want    string
	}{
		"no flag":              {server{}, list, list},
		"the flag":             {server{url: "https://q.example:9780"}, list, list + " --server https://q.example:9780"},
		"a password":           {server{url: "https://me:secret@q.example/x?token=secret#secret"}, list, list + " --server https://q.example/x"},
		"what signs in to it":  {server{url: "https://q", tokenFile: "my token", ca: "ca.pem", cert: "c.pem", key: "k.pem"}, list, list + " --server https://q --token-file 'my token' --server-ca ca.pem --server-cert c.pem --server-key k.pem"},
		"not a URL":            {server{url: "::"}, list, list},
		"doctor takes none":    {server{url: "https://q"}, doctor, doctor},
		"other programs' none": {server{url: "https://q"}, curl, curl},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			c, _, _ := terminal("", nil)
			c.tellFinding(&out, story.Finding{Next: []story.Step{{Text: "look", Command: tt.command}}}, tt.server.again())
			if want := "        next: look\n                " + tt.want + "\n"; !bytes.HasSuffix(out.Bytes(), []byte(want)) {
				t.Errorf("got %q, want it to end in %q", out.String(), want)
			}
		})
	}
}
