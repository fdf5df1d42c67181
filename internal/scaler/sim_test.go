package scaler

import (
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/collector"
)

// shape is a recorded load: what arrives in each ten seconds, and how long it takes.
type shape struct {
	name        string
	about       string
	rows        []shapeRow
	concurrency int
	objective   time.Duration
	configured  time.Duration // handlingTime of the file
}

type shapeRow struct {
	messages, failing int
	handling          time.Duration
}

const rowTime = 10 * time.Second

func readShape(t *testing.T, name string, concurrency int, objective, configured time.Duration) shape {
	t.Helper()
	text, err := os.ReadFile("testdata/load/" + name + ".csv")
	if err != nil {
		t.Fatal(err)
	}
	about, table, _ := strings.Cut(string(text), "\n")
	records, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	s := shape{name: name, about: strings.TrimPrefix(about, "# "), concurrency: concurrency, objective: objective, configured: configured}
	for _, r := range records[1:] {
		messages, err1 := strconv.Atoi(r[1])
		failing, err2 := strconv.Atoi(r[2])
		handling, err3 := strconv.ParseFloat(r[3], 64)
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatalf("%s: %v", name, r)
		}
		s.rows = append(s.rows, shapeRow{messages, failing, time.Duration(handling * float64(time.Second))})
	}
	return s
}

// rules are how KEDA and the autoscaler are set for a scaler.
type rules struct {
	target                    float64
	polling, cooldown, window time.Duration
	max                       int
	watching                  time.Duration // watch.interval of qwatch
}

// What the simulated cluster does.
const (
	hpaSync      = 15 * time.Second
	hpaTolerance = 0.1
	podStart     = 15 * time.Second // from being wanted to receiving
	podGrace     = 30 * time.Second // from being unwanted to being killed
	retryInitial = 30 * time.Second
	retryMax     = 5 * time.Minute
	maxDequeues  = 5
)

type simMessage struct {
	inserted, visible time.Duration
	dequeues          int
	failing           bool
}

type simSlot struct {
	m    *simMessage
	ends time.Duration
	took time.Duration
}

type simPod struct {
	ready   time.Duration
	leaving time.Duration // when it was told to; 0: not
	slots   []simSlot
	receive time.Duration // when it asks again
	backoff time.Duration
}

// sim is a queue, its consumers, KEDA's loop and the autoscaler, in steps of a second.
type sim struct {
	shape
	rules
	signal   func(*sim) (value float64, active bool)
	now      time.Duration
	random   *rand.Rand
	waiting  []*simMessage // visible and hidden ones, by when they are visible
	pods     []*simPod
	replicas int

	lastActive time.Duration
	wanted     []recommendation

	seen     facts
	handling handling
	news     progress

	late     time.Duration // in which a message waited too long for its first delivery
	used     time.Duration // by all replicas together
	peak     int           // replicas
	handled  int
	poisoned int
}

type recommendation struct {
	at time.Duration
	n  int
}

var simEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *sim) clock() time.Time { return simEpoch.Add(s.now) }

func (s *sim) run() {
	s.random = rand.New(rand.NewPCG(1, 2))
	s.lastActive = -s.cooldown
	s.watch()
	for end := time.Duration(len(s.rows)) * rowTime; s.now < end; s.now += time.Second {
		s.arrive()
		s.work()
		if s.now%s.watching == 0 {
			s.watch()
		}
		if s.now%s.polling == 0 {
			s.poll()
		}
		if s.now%hpaSync == 7*time.Second {
			s.autoscale()
		}
		s.measure()
	}
}

func (s *sim) row() shapeRow { return s.rows[s.now/rowTime] }

// arrive spreads a row's messages over its ten seconds.
func (s *sim) arrive() {
	r, i := s.row(), int(s.now%rowTime/time.Second)
	share := func(n int) int { return n*(i+1)/10 - n*i/10 }
	failing := share(r.failing)
	for n := range share(r.messages) {
		s.put(&simMessage{inserted: s.now, visible: s.now, failing: n < failing})
	}
}

func (s *sim) put(m *simMessage) {
	at, _ := slices.BinarySearchFunc(s.waiting, m.visible+1, func(m *simMessage, t time.Duration) int { return int(m.visible - t) })
	s.waiting = slices.Insert(s.waiting, at, m)
}

func (s *sim) visible() int {
	n, _ := slices.BinarySearchFunc(s.waiting, s.now+1, func(m *simMessage, t time.Duration) int { return int(m.visible - t) })
	return n
}

// work ends handlers and pods, and lets the others receive.
func (s *sim) work() {
	s.pods = slices.DeleteFunc(s.pods, func(p *simPod) bool {
		p.slots = slices.DeleteFunc(p.slots, func(l simSlot) bool {
			killed := p.leaving > 0 && s.now-p.leaving >= podGrace
			if l.ends > s.now && !killed {
				return false
			}
			s.settle(l, killed && l.ends > s.now)
			return true
		})
		return p.leaving > 0 && len(p.slots) == 0
	})
	for _, p := range s.pods {
		if p.leaving > 0 || s.now < p.ready || s.now < p.receive {
			continue
		}
		got := 0
		for len(p.slots) < s.concurrency && s.visible() > 0 {
			m := s.waiting[0]
			s.waiting = slices.Delete(s.waiting, 0, 1)
			m.dequeues++
			took := time.Duration(float64(s.row().handling) * (0.8 + 0.4*s.random.Float64())).Round(time.Second)
			took = max(time.Second, took)
			p.slots = append(p.slots, simSlot{m, s.now + took, took})
			got++
		}
		if got > 0 || len(p.slots) == s.concurrency {
			p.backoff = 0
			continue
		}
		p.backoff = min(max(time.Second, 2*p.backoff), 30*time.Second)
		p.receive = s.now + p.backoff
	}
}

func (s *sim) settle(l simSlot, cut bool) {
	if cut {
		l.m.visible = s.now
		s.put(l.m)
		return
	}
	s.news.n++
	s.news.total += l.took
	switch {
	case !l.m.failing:
		s.handled++
	case l.m.dequeues >= maxDequeues:
		s.poisoned++
	default:
		l.m.visible = s.now + min(retryMax, retryInitial<<(l.m.dequeues-1))
		s.put(l.m)
	}
}

func (s *sim) running() int {
	n := 0
	for _, p := range s.pods {
		n += len(p.slots)
	}
	return n
}

// watch is what qwatch learns by looking at the queue and asking the consumers.
func (s *sim) watch() {
	visible := s.visible()
	peek := collector.Peek{Known: true, At: s.clock(), Visible: min(visible, 32), Full: visible >= 32}
	for _, m := range s.waiting[:peek.Visible] {
		peek.OldestAge = max(peek.OldestAge, s.now-m.inserted)
		peek.MaxDequeueCount = max(peek.MaxDequeueCount, m.dequeues)
	}
	s.handling.add(s.clock(), s.news.n, s.news.total)
	s.news = progress{}
	running := s.running()
	s.seen = facts{
		count: collector.Count{Known: true, Messages: int64(len(s.waiting) + running), At: s.clock()}, peek: peek,
		hidden: int64(len(s.waiting) - visible + running), running: workers{known: true, handlers: running},
		objective: s.objective, handling: s.configured, concurrency: s.concurrency,
	}
	if mean, ok := s.handling.mean(); ok {
		s.seen.handling = mean
	}
}

// poll is KEDA's loop: it starts the first replica and ends the last.
func (s *sim) poll() {
	_, active := s.signal(s)
	switch {
	case active && s.replicas == 0:
		s.lastActive = s.now
		s.scale(1)
	case active:
		s.lastActive = s.now
	case s.replicas > 0 && s.now-s.lastActive >= s.cooldown:
		s.scale(0)
		s.wanted = nil
	}
}

// autoscale is the horizontal pod autoscaler: tolerance, stabilisation of what is less, limits of what is more.
func (s *sim) autoscale() {
	if s.replicas == 0 {
		return
	}
	value, _ := s.signal(s)
	want := s.replicas
	if ratio := value / (s.target * float64(s.replicas)); math.Abs(ratio-1) > hpaTolerance {
		want = int(math.Ceil(value / s.target))
	}
	s.wanted = append(s.wanted, recommendation{s.now, want})
	highest := want
	for _, r := range s.wanted {
		if s.now-r.at <= s.window {
			highest = max(highest, r.n)
		}
	}
	if want < s.replicas {
		want = min(s.replicas, highest)
	}
	want = min(want, max(2*s.replicas, s.replicas+4), s.max)
	s.scale(max(1, want))
}

func (s *sim) scale(n int) {
	for ; s.replicas < n; s.replicas++ {
		s.pods = append(s.pods, &simPod{ready: s.now + podStart})
	}
	for i := len(s.pods) - 1; i >= 0 && s.replicas > n; i-- { // the newest go first
		if s.pods[i].leaving == 0 {
			s.pods[i].leaving = s.now
			s.replicas--
		}
	}
	s.peak = max(s.peak, s.replicas)
}

// measure adds up the seconds in which a message waited too long for its first delivery, and those of replicas.
func (s *sim) measure() {
	s.used += time.Duration(len(s.pods)) * time.Second
	for _, m := range s.waiting {
		if m.dequeues == 0 && s.now-m.inserted > s.objective {
			s.late += time.Second
			break
		}
	}
}

// azureQueue is KEDA's azure-queue scaler as it is by default: it asks the service for the count.
func azureQueue(s *sim) (float64, bool) {
	n := len(s.waiting) + s.running()
	return float64(n), n > 0
}

// strategy is qwatch as KEDA's external scaler.
func strategy(st Strategy) func(*sim) (float64, bool) {
	return func(s *sim) (float64, bool) {
		f := s.seen
		f.now = s.clock()
		a, err := decide(st, f)
		if err != nil {
			panic(err) // everything is known here
		}
		return float64(a.Value), a.Active(0)
	}
}
