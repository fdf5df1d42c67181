package queue_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestSecretFilesAreReadAgainWhenTheyChange(t *testing.T) {
	const cs = "AccountName=devstoreaccount1;QueueEndpoint=" + emulator
	for name, c := range map[string]struct {
		old, new func(t *testing.T) string
		config   func(path string) queue.AccountConfig
	}{
		"an account key": {
			old:    func(*testing.T) string { return oldKey },
			new:    func(*testing.T) string { return key + "\n" },
			config: func(p string) queue.AccountConfig { return queue.AccountConfig{Endpoint: emulator, AccountKeyFile: p} },
		},
		"a SAS": {
			old: func(t *testing.T) string {
				return accountSigned(t, oldKey, "sco", "rwdlacup", time.Now().Add(time.Hour))
			},
			new: func(t *testing.T) string {
				return "?" + accountSigned(t, key, "sco", "rwdlacup", time.Now().Add(time.Hour))
			},
			config: func(p string) queue.AccountConfig { return queue.AccountConfig{Endpoint: emulator, SASFile: p} },
		},
		"a key in a connection string": {
			old:    func(*testing.T) string { return cs + ";AccountKey=" + oldKey },
			new:    func(*testing.T) string { return cs + ";AccountKey=" + key },
			config: func(p string) queue.AccountConfig { return queue.AccountConfig{ConnectionStringFile: p} },
		},
		"a SAS in a connection string": {
			old: func(t *testing.T) string {
				return cs + ";SharedAccessSignature=" + accountSigned(t, oldKey, "sco", "rwdlacup", time.Now().Add(time.Hour))
			},
			new: func(t *testing.T) string {
				return cs + ";SharedAccessSignature=" + accountSigned(t, key, "sco", "rwdlacup", time.Now().Add(time.Hour))
			},
			config: func(p string) queue.AccountConfig { return queue.AccountConfig{ConnectionStringFile: p} },
		},
	} {
		// A refusal is answered with the new secret within the same call, whatever the file's time says.
		t.Run(name+", after a refusal", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := queuetest.New(queuetest.Options{})
				var l logs
				path := filepath.Join(t.TempDir(), "secret")
				write(t, path, c.old(t))
				cfg := c.config(path)
				cfg.Name, cfg.Transport, cfg.Logger = "acct", srv, l.logger()
				a := account(t, cfg)
				q, err := a.Queue("orders", queue.Config{})
				if err != nil {
					t.Fatal(err)
				}
				if err := q.Create(t.Context()); queue.Classify(err) != queue.ResultAuth {
					t.Fatalf("the old secret: %v", err)
				}
				write(t, path, c.new(t))
				// The body goes out again as well, and a refusal that was overcome leaves no trace in the error.
				_, err = q.Send(t.Context(), "hello", queue.SendOptions{})
				if want := "send to acct/orders: 404 QueueNotFound"; message(err) != want {
					t.Errorf("the new secret: %v, want %s", err, want)
				}
				if err := q.Create(t.Context()); err != nil {
					t.Error(err)
				}
				write(t, path, c.old(t))
				time.Sleep(5 * time.Second)
				if err := q.Clear(t.Context()); queue.Classify(err) != queue.ResultAuth {
					t.Fatalf("the old secret again: %v", err)
				}
				write(t, path, c.new(t))
				if _, err := q.Send(t.Context(), "hello", queue.SendOptions{}); err != nil {
					t.Error(err)
				}
				if got := srv.Texts(queuetest.AccountName, "orders"); !slices.Equal(got, []string{"hello"}) {
					t.Errorf("sent %q", got)
				}
				if err := use(t.Context(), a); err != nil {
					t.Error(err)
				}
				if got, want := l.String(), strings.Repeat(`level=INFO msg="credential file changed; the new credential is in use" account=acct`+"\n", 3); got != want {
					t.Errorf("logged %s", got)
				}
			})
		})
		// While the old one still works nobody is refused: the file is looked at every few seconds.
		t.Run(name+", in time", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := queuetest.New(queuetest.Options{})
				path := filepath.Join(t.TempDir(), "secret")
				write(t, path, c.new(t))
				cfg := c.config(path)
				cfg.Name, cfg.Transport = "acct", srv
				a := account(t, cfg)
				q := created(t, a, queue.Config{})
				// As Kubernetes does it: another file under the same name.
				write(t, path+".new", c.old(t))
				if err := os.Rename(path+".new", path); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				if err := q.Clear(t.Context()); queue.Classify(err) != queue.ResultAuth {
					t.Errorf("five seconds after the change the file was not read: %v", err)
				}
			})
		})
	}
}

func TestUnusableRotationKeepsTheOldSecret(t *testing.T) {
	const cs = "AccountName=devstoreaccount1;AccountKey=" + key + ";QueueEndpoint=" + emulator
	for name, c := range map[string]struct{ text, why string }{
		"another account":  {"AccountName=other;AccountKey=" + key + ";QueueEndpoint=http://127.0.0.1:10001/other", "it is for another account or endpoint than before: restart to change accounts"},
		"another endpoint": {"AccountName=devstoreaccount1;AccountKey=" + key, "it is for another account or endpoint than before: restart to change accounts"},
		"another way":      {"QueueEndpoint=" + emulator + ";SharedAccessSignature=" + queueSAS, "it signs in another way than before (account key or SAS): restart to change it"},
		"a broken key":     {"AccountName=devstoreaccount1;AccountKey=???;QueueEndpoint=" + emulator, "AccountKey: it is not base64: copy the key again, as a whole"},
		"nonsense":         {"nonsense", "it is not a connection string: settings are written name=value and separated by semicolons"},
		"nothing":          {"", "credential file cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := queuetest.New(queuetest.Options{})
				var l logs
				path := filepath.Join(t.TempDir(), "secret")
				write(t, path, cs)
				a := account(t, queue.AccountConfig{Name: "acct", ConnectionStringFile: path, Transport: srv, Logger: l.logger()})
				q, err := a.Queue("orders", queue.Config{})
				if err != nil {
					t.Fatal(err)
				}
				write(t, path, c.text)
				for range 10 {
					time.Sleep(4 * time.Second)
					if err := q.Create(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if got := l.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, c.why) || strings.Contains(got, key[:20]) {
					t.Errorf("logged %s", got)
				}
				l.b.Reset()
				write(t, path, cs+";")
				time.Sleep(4 * time.Second)
				if err := q.Create(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := l.String(); !strings.Contains(got, "the new credential is in use") {
					t.Errorf("after the repair logged %q", got)
				}
			})
		})
	}
}

func TestSecretFileIsNotReadOnEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := queuetest.New(queuetest.Options{})
		path := filepath.Join(t.TempDir(), "secret")
		write(t, path, key)
		a := account(t, queue.AccountConfig{Name: "acct", Endpoint: emulator, AccountKeyFile: path, Transport: srv})
		q, err := a.Queue("orders", queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, oldKey)
		// No time passes: the change is not seen, and the key that was read still signs.
		for range 100 {
			if err := q.Create(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Calls that were refused at the same time all go on with the new secret, whoever read it.
func TestRotationUnderLoad(t *testing.T) {
	srv := queuetest.New(queuetest.Options{})
	var l logs
	path := filepath.Join(t.TempDir(), "secret")
	write(t, path, oldKey)
	a := account(t, queue.AccountConfig{Name: "acct", Endpoint: emulator, AccountKeyFile: path, Transport: srv, Logger: l.logger()})
	q, err := a.Queue("orders", queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, key)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if err := q.Create(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := strings.Count(l.String(), "the new credential is in use"); got != 1 {
		t.Errorf("logged %s", &l)
	}
}
