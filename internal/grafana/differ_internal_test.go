package grafana

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		want, got string
		paths     []string
	}{
		"alike":                               {`{"a": [1, {"b": "c"}]}`, `{"a": [1, {"b": "c"}]}`, nil},
		"what Grafana adds":                   {`{"a": {"b": 1}}`, `{"a": {"b": 1, "id": 7}, "version": 3}`, nil},
		"what Grafana leaves out":             {`{"a": false, "b": 0, "c": "", "d": [], "e": {}, "f": null}`, `{}`, nil},
		"another value":                       {`{"a": {"b": 1}}`, `{"a": {"b": 2}}`, []string{"a.b"}},
		"another type":                        {`{"a": {"b": 1}, "c": [1]}`, `{"a": 1, "c": {}}`, []string{"a", "c"}},
		"a list that is longer":               {`{"a": [1]}`, `{"a": [1, 2]}`, []string{"a"}},
		"a list that is shorter":              {`{"a": [1, 2]}`, `{"a": [1]}`, []string{"a"}},
		"an order":                            {`{"a": [1, 2]}`, `{"a": [2, 1]}`, []string{"a[0]", "a[1]"}},
		"what is missing":                     {`{"a": 1, "b": true}`, `{}`, []string{"a", "b"}},
		"the same duration in other words":    {`{"r": {"for": "60m", "keep_firing_for": "90s"}}`, `{"r": {"for": "1h", "keep_firing_for": "1m30s"}}`, nil},
		"another duration":                    {`{"r": {"for": "60m"}}`, `{"r": {"for": "2h"}}`, []string{"r.for"}},
		"durations count where they belong":   {`{"r": {"text": "60m"}}`, `{"r": {"text": "1h"}}`, []string{"r.text"}},
		"something that is no duration there": {`{"r": {"for": "60m"}}`, `{"r": {"for": 1}}`, []string{"r.for"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want, got any
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tt.got), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.paths, differences(want, got)); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
		})
	}
}
