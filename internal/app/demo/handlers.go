package demo

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// dice is randomness that several goroutines share and a seed decides.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{r: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))} }

func (d *dice) chance(p float64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Float64() < p
}

func (d *dice) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return lo + time.Duration(d.r.Int64N(int64(hi-lo)))
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// handlers is the service that qwatch hands the demo's messages to: one path a queue,
// in the shape of any HTTP handler a user would write.
func handlers(d *dice, when troubles) http.Handler {
	mux := http.NewServeMux()
	for _, c := range characters() {
		if c.consumed {
			mux.HandleFunc("POST /"+c.name, func(w http.ResponseWriter, r *http.Request) { when.now(c).handle(w, r, d) })
		}
	}
	return mux
}

func (c character) handle(w http.ResponseWriter, r *http.Request, d *dice) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, "the body broke off", http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(d.between(c.work[0], c.work[1])):
	case <-r.Context().Done():
		return
	}
	id := r.Header.Get("Qwatch-Message-Id")
	switch {
	case c.refuses(id):
		w.Header().Set("Qwatch-Outcome", "dead-letter")
		w.Header().Set("Qwatch-Reason", refusals[int(share(id)*1e6)%len(refusals)])
		w.WriteHeader(http.StatusUnprocessableEntity)
	case d.chance(c.transient):
		w.Header().Set("Qwatch-Reason", "the carrier's service is busy")
		http.Error(w, "try again later", http.StatusBadGateway)
	default:
		fmt.Fprintln(w, "done")
	}
}

var refusals = [...]string{"the card number is not valid", "the amount is negative", "the customer is unknown"}

// refuses says whether a message is one of those that never succeed.
func (c character) refuses(id string) bool { return share(id) < c.permanent }

// share maps an id to a number from 0 to 1, the same for every attempt.
func share(id string) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	return float64(h.Sum64()>>11) / (1 << 53)
}
