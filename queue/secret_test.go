package queue_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/qwatch/qwatch/queue"
)

func TestSecretShowsNothing(t *testing.T) {
	const text = "s3cr3t-t3xt"
	type config struct {
		Key  queue.Secret            `json:"key" yaml:"key"`
		Map  map[string]queue.Secret `json:"map" yaml:"map"`
		Keys map[queue.Secret]int    `json:"-" yaml:"-"`
		Ptr  *queue.Secret           `json:"ptr" yaml:"ptr"`
		More []queue.Secret          `json:"more" yaml:"more"`
		Acct queue.AccountConfig     `json:"-" yaml:"-"`
		Any  any                     `json:"any" yaml:"any"`
	}
	s := queue.Secret(text)
	c := config{
		Key: s, Map: map[string]queue.Secret{"a": s}, Keys: map[queue.Secret]int{s: 1}, Ptr: &s, More: []queue.Secret{s}, Any: s,
		Acct: queue.AccountConfig{ConnectionString: s, AccountKey: s, SAS: s},
	}
	shown := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%c", "%U", "%e", "%10s", "%-10.3s"} {
		shown["a secret by "+verb] = fmt.Sprintf(verb, s)
		shown["a struct by "+verb] = fmt.Sprintf(verb, c)
	}
	shown["Sprint"] = fmt.Sprint(s, &s, c, &c)
	shown["Sprintln"] = fmt.Sprintln("key", s)
	shown["an error"] = fmt.Errorf("bad %v: %q", s, s).Error()
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("m", "key", s, "config", c, "group", slog.GroupValue(slog.Any("k", s)))
	shown["slog text"] = b.String()
	b.Reset()
	slog.New(slog.NewJSONHandler(&b, nil)).Info("m", "key", s, "config", c)
	shown["slog json"] = b.String()
	j, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	shown["json"] = string(j)
	y, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	shown["yaml"] = string(y)
	x, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"c"`
		Key     queue.Secret
	}{Key: s})
	if err != nil {
		t.Fatal(err)
	}
	shown["xml"] = string(x)
	b.Reset()
	if err := template.Must(template.New("").Parse("{{.Key}} {{.Map}} {{printf `%s` .Key}}")).Execute(&b, c); err != nil {
		t.Fatal(err)
	}
	shown["template"] = b.String()

	hexed := fmt.Sprintf("%x", text)
	for how, out := range shown {
		if strings.Contains(out, text) || strings.Contains(strings.ToLower(out), hexed) || strings.Contains(out, text[:6]) {
			t.Errorf("%s shows the secret: %s", how, out)
		}
		if !strings.Contains(out, "[redacted]") {
			t.Errorf("%s does not say that something is redacted: %s", how, out)
		}
	}
}

func TestSecretIsItselfWhereItIsNeeded(t *testing.T) {
	var got struct{ Key, None queue.Secret }
	if err := json.Unmarshal([]byte(`{"Key":"a b"}`), &got); err != nil || got.Key.Reveal() != "a b" {
		t.Errorf("from JSON: %q, %v", got.Key.Reveal(), err)
	}
	if err := yaml.Unmarshal([]byte("key: c d"), &got); err != nil || got.Key.Reveal() != "c d" {
		t.Errorf("from YAML: %q, %v", got.Key.Reveal(), err)
	}
	if s := fmt.Sprintf("%v|%s|%q|%#v", got.None, got.None, got.None, got.None); s != `|||""|""`[1:] {
		t.Errorf("an empty secret is shown as %s", s)
	}
}
