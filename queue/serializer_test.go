package queue

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type line struct {
	SKU   string  `json:"sku"`
	Count int     `json:"count"`
	Price float64 `json:"price"`
}

type order struct {
	OrderID int64  `json:"orderId"`
	Lines   []line `json:"lines"`
	Note    string `json:"note"`
}

func (o *order) Validate() error {
	if o.OrderID < 0 {
		return errors.New("orderId is negative")
	}
	return nil
}

func TestDecode(t *testing.T) {
	want := order{OrderID: 42, Lines: []line{{"12", 7, 1.5}, {"x", 8, 2}}, Note: "9"}
	for name, body := range map[string]string{
		"camel case":                 `{"orderId":42,"lines":[{"sku":"12","count":7,"price":1.5},{"sku":"x","count":8,"price":2}],"note":"9"}`,
		"Pascal case":                `{"OrderId":42,"Lines":[{"Sku":"12","Count":7,"Price":1.5},{"SKU":"x","Count":8,"Price":2}],"Note":"9"}`,
		"numbers written as strings": `{"orderId":"42","lines":[{"sku":"12","count":"7","price":"1.5"},{"sku":"x","count":"8","price": "2" }],"note":"9"}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode[order](read(body, Config{}))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDecodeFailures(t *testing.T) {
	for body, want := range map[string]string{
		`{"orderId":"secret-text"}`:          "a string where field orderId wants int64",
		`{"orderId":1.5}`:                    "a number where field orderId wants int64",
		`{"orderId":["4"]}`:                  "an array where field orderId wants int64",
		`{"orderId":`:                        "not valid JSON",
		`"secret-text"`:                      "a string where queue.order is wanted",
		`{"orderId":-1}`:                     "the body is not valid: orderId is negative",
		`{"orderId":"99999999999999999999"}`: "a number where field orderId wants int64",
	} {
		_, err := Decode[order](read(body, Config{}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
			continue
		}
		var invalid *InvalidError
		if errors.As(err, &invalid) == errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %v is both or neither of invalid and unreadable", body, err)
		}
		if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "999") {
			t.Errorf("the error quotes the body: %v", err)
		}
	}
}

func TestManyStringNumbersAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`[`)
	for i := range 5000 {
		fmt.Fprintf(&b, `"%d",`, i)
	}
	b.WriteString(`"1"]`)
	if _, err := Decode[[]int](read(b.String(), Config{})); !errors.Is(err, ErrUnreadable) {
		t.Errorf("error %v", err)
	}
}

func TestDecodeGivesTextAndBytesAsTheyAre(t *testing.T) {
	m := read("not json", Config{})
	if s, err := Decode[string](m); s != "not json" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	if b, err := Decode[[]byte](m); string(b) != "not json" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}
