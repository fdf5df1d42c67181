package metric

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// billWindow is the time whose requests a month's cost is estimated from, and billStep how finely.
	billWindow = time.Hour
	billStep   = time.Minute
	month      = 30 * 24 * time.Hour
)

// Bill estimates what the storage requests of this process cost in a month, from those of the last hour.
// Every request is a transaction. Safe for concurrent use.
type Bill struct {
	desc  *prometheus.Desc
	price atomic.Uint64 // of a transaction, as the bits of a float64

	mu       sync.Mutex
	accounts atomic.Pointer[map[string]*billed] // written under mu
}

type billed struct {
	requests atomic.Uint64

	mu   sync.Mutex
	past []tally // oldest first, a step apart: the first is a window old, or the beginning
}

type tally struct {
	at       time.Time
	requests uint64
}

// NewBill returns the bill, registered with reg, at a price for 10,000 transactions. Without a price, 0, requests
// are counted and nothing is exported.
func NewBill(reg prometheus.Registerer, pricePer10k float64) *Bill {
	b := &Bill{desc: Of(StorageMonthlyCost).Desc()}
	b.SetPrice(pricePer10k)
	b.accounts.Store(&map[string]*billed{})
	reg.MustRegister(b)
	return b
}

// SetPrice changes the price for 10,000 transactions.
func (b *Bill) SetPrice(per10k float64) { b.price.Store(math.Float64bits(per10k / 10_000)) }

// Init makes an account known; Count passes over others. Again does nothing.
func (b *Bill) Init(account string) {
	b.change(func(known map[string]*billed) {
		if known[account] == nil {
			known[account] = &billed{past: []tally{{at: time.Now()}}}
		}
	})
}

// Delete forgets an account.
func (b *Bill) Delete(account string) {
	b.change(func(known map[string]*billed) { delete(known, account) })
}

func (b *Bill) change(do func(map[string]*billed)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := make(map[string]*billed, len(*b.accounts.Load())+1)
	maps.Copy(known, *b.accounts.Load())
	do(known)
	b.accounts.Store(&known)
}

// Count counts a request. It takes no lock and allocates nothing.
func (b *Bill) Count(account string) {
	if a := (*b.accounts.Load())[account]; a != nil {
		a.requests.Add(1)
	}
}

// Describe implements prometheus.Collector.
func (b *Bill) Describe(ch chan<- *prometheus.Desc) { ch <- b.desc }

// Collect implements prometheus.Collector.
func (b *Bill) Collect(ch chan<- prometheus.Metric) {
	now, price := time.Now(), math.Float64frombits(b.price.Load())
	if price == 0 {
		return
	}
	for name, a := range *b.accounts.Load() {
		if perMonth, ok := a.estimate(now); ok {
			ch <- prometheus.MustNewConstMetric(b.desc, prometheus.GaugeValue, perMonth*price, name)
		}
	}
}

// estimate returns how many requests a month would see at the rate of the last hour, or of the time since
// the beginning; false before a minute of it.
func (a *billed) estimate(now time.Time) (perMonth float64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.requests.Load()
	if now.Sub(a.past[len(a.past)-1].at) >= billStep {
		a.past = append(a.past, tally{now, n})
	}
	for len(a.past) > 1 && now.Sub(a.past[1].at) >= billWindow {
		a.past = a.past[1:]
	}
	first := a.past[0]
	since := now.Sub(first.at)
	if since < billStep {
		return 0, false
	}
	return float64(n-first.requests) / since.Seconds() * month.Seconds(), true
}
