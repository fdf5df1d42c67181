package metric_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/internal/metric"
)

func TestBill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		bill := metric.NewBill(reg, 0.4)
		bill.Init("orders")
		bill.Init("orders")
		bill.Init("idle")
		cost := func(account string) (float64, bool) {
			t.Helper()
			x, ok := samples(t, reg)[`qwatch_storage_estimated_monthly_cost{account="`+account+`"}`]
			return x, ok
		}
		for range 50 {
			bill.Count("orders")
			bill.Count("nobody")
		}
		if x, ok := cost("orders"); ok {
			t.Errorf("after no time a month costs %v", x)
		}
		// Ten a second for two hours, scraped now and then.
		for second := range 7200 {
			time.Sleep(time.Second)
			for range 10 {
				bill.Count("orders")
			}
			if second%37 == 0 {
				cost("orders")
			}
		}
		want := 10. * 30 * 24 * 3600 / 10_000 * 0.4
		if x, ok := cost("orders"); !ok || math.Abs(x-want) > want/100 {
			t.Errorf("a month of ten requests a second costs %v (%t), want %v", x, ok, want)
		}
		if x, ok := cost("idle"); !ok || x != 0 {
			t.Errorf("an account nobody asks costs %v (%t)", x, ok)
		}
		time.Sleep(30 * time.Minute)
		cost("orders")
		time.Sleep(29 * time.Minute)
		if x, _ := cost("orders"); x <= 0 || x > want/10 {
			t.Errorf("an hour later it costs %v", x)
		}
		time.Sleep(5 * time.Minute)
		if x, _ := cost("orders"); x > want/100 {
			t.Errorf("more than an hour later it costs %v", x)
		}
		bill.Delete("orders")
		bill.Count("orders")
		if x, ok := cost("orders"); ok {
			t.Errorf("a deleted account costs %v", x)
		}
	})
}

func BenchmarkBillCount(b *testing.B) {
	bill := metric.NewBill(prometheus.NewRegistry(), 1)
	bill.Init("orders")
	b.ReportAllocs()
	for b.Loop() {
		bill.Count("orders")
	}
}
