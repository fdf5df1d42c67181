package app

import (
	"strings"
	"testing"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

func TestBusinessKeysAreWhatAPointerLeadsTo(t *testing.T) {
	const secret = "eyes-only"
	for body, want := range map[string]string{
		`{"order":{"id":"A-1"},"note":"` + secret + `"}`: "A-1",
		`{"order":{"id":12345678901234567890}}`:          "12345678901234567890",
		`{"order":{"id":{"a":"` + secret + `"}}}`:        "error: the business key is neither text nor a number",
		`{"order":[]}`: "error: the message has no business key",
		`{}`:           "error: the message has no business key",
		secret:         "error: the body is not JSON, where the business key lies",
		"":             "error: the body is not JSON, where the business key lies",
	} {
		key, err := businessKey(config.BusinessKey{JSON: "/order/id"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := key(&processor.Message{Message: &queue.Message{Body: []byte(body)}})
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want || strings.Contains(got, secret) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	key, err := businessKey(config.BusinessKey{Header: "order-id"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := key(&processor.Message{Message: &queue.Message{Headers: map[string]string{"order-id": "A-1"}}}); got != "A-1" || err != nil {
		t.Errorf("from a header: %q, %v", got, err)
	}
}
