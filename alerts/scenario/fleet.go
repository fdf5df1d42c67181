package scenario

import (
	"slices"

	"github.com/qwatch/qwatch/internal/metric"
)

// ID is a queue, and where it is seen from.
type ID struct {
	Cluster  string // default: none
	Account  string
	Queue    string
	Instance string // of the watcher; default "watcher:9780"
	Tier     string
	Team     string
	Mode     string // default "watch"
}

func (q ID) labels(extra ...string) []string {
	instance := q.Instance
	if instance == "" {
		instance = "watcher:9780"
	}
	return append([]string{"cluster", q.Cluster, "account", q.Account, "queue_name", q.Queue, "instance", instance, "job", "qwatch"}, extra...)
}

// View is what the watcher sees of a queue and its poison queue in a minute. The zero View is an empty
// queue that can be polled.
type View struct {
	Gone    bool // nobody watches it
	Fails   bool // polls fail: numbers go three minutes later
	Deleted bool // the service says that the queue is not there
	NoPoll  bool // polls stay away, and none fails

	Count    float64 // hidden messages included
	Visible  float64
	Age      float64 // of the oldest visible message, seconds
	Head     float64 // how long the head has been unchanged, seconds
	Attempts float64 // highest dequeue count in the peek
	Status   string  // default "ok", or "idle" when Count is 0
	Loss     float64 // seconds until a message of the main queue is lost; 0: none will be

	Poison       float64
	PoisonAbsent bool    // no series of a poison queue
	PoisonLoss   float64 // seconds; 0: none will be lost
	PoisonExpiry float64 // next_expiration less now, seconds; 0: none

	Expiry float64 // of the main queue's peek: next_expiration less now, seconds; 0: none
}

// Settings are the thresholds of a queue that are metrics.
type Settings struct {
	Objective, Ratio, HandlerLimit float64
	MonitorOnly                    bool
}

// Watch gives a queue the series of the watcher.
func (s *Scenario) Watch(q ID, settings Settings, view func(minute int) View) {
	at := func(m int) View {
		v := view(m)
		if v.Status == "" {
			v.Status = "ok"
			if v.Count == 0 {
				v.Status = "idle"
			}
		}
		if v.Fails {
			v.Status = "unreachable"
		}
		if v.Deleted {
			v.Status = "missing"
		}
		return v
	}
	// known says whether numbers are there: a failed poll keeps the last for three intervals.
	known := func(m int) (int, bool) {
		if at(m).Gone || at(m).Deleted {
			return m, false
		}
		for back := range 4 {
			if m-back >= 0 && !at(m-back).Fails && !at(m-back).Gone && !at(m-back).Deleted {
				return m - back, true
			}
		}
		return m, false
	}
	number := func(name, kind string, value func(v View) float64, when func(v View) bool) {
		s.Set(name, q.labels("queue_kind", kind), func(m int) float64 {
			seen, ok := known(m)
			if !ok || when != nil && !when(at(seen)) {
				return Absent()
			}
			return value(at(seen))
		})
	}
	there := func(name string, labels []string, value func(m int, v View) float64) {
		s.Set(name, labels, func(m int) float64 {
			v := at(m)
			if v.Gone {
				return Absent()
			}
			return value(m, v)
		})
	}
	truth := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	mode := q.Mode
	if mode == "" {
		mode = "watch"
	}
	for _, kind := range []string{metric.KindMain, metric.KindPoison} {
		main := kind == metric.KindMain
		labels := func(extra ...string) []string { return q.labels(append([]string{"queue_kind", kind}, extra...)...) }
		set := func(name string, labels []string, value func(m int, v View) float64) {
			there(name, labels, func(m int, v View) float64 {
				if !main && v.PoisonAbsent {
					return Absent()
				}
				return value(m, v)
			})
		}
		set(metric.QueueUp, labels(), func(_ int, v View) float64 { return truth(!v.Fails && !(main && v.Deleted)) })
		set(metric.QueueExists, labels(), func(m int, v View) float64 {
			if _, ok := known(m); !ok && !v.Deleted {
				return Absent()
			}
			return truth(!v.Deleted)
		})
		set(metric.QueuePollInterval, labels(), func(int, View) float64 { return 60 })
		set(metric.QueueLastPollSuccess, labels(), func(m int, _ View) float64 {
			for back := m; back >= 0; back-- {
				if v := at(back); !v.Fails && !v.NoPoll && !v.Gone && !(main && v.Deleted) {
					return float64(back * 60)
				}
			}
			return 0
		})
		set(metric.QueueInfo, labels("physical_name", q.Queue, "mode", mode, "tier", q.Tier, "team", q.Team), func(int, View) float64 { return 1 })
	}
	number(metric.QueueApproximateMessages, metric.KindMain, func(v View) float64 { return v.Count }, nil)
	number(metric.QueuePeekedMessages, metric.KindMain, func(v View) float64 { return min(v.Visible, 32) }, nil)
	number(metric.QueueOldestVisibleAge, metric.KindMain, func(v View) float64 { return v.Age }, nil)
	number(metric.QueueHeadUnchanged, metric.KindMain, func(v View) float64 { return v.Head }, nil)
	number(metric.QueuePeekedAttemptsMax, metric.KindMain, func(v View) float64 { return v.Attempts }, nil)
	number(metric.QueueForecastLoss, metric.KindMain, func(v View) float64 { return v.Loss }, func(v View) bool { return v.Loss > 0 })
	has := func(v View) bool { return !v.PoisonAbsent }
	number(metric.QueueApproximateMessages, metric.KindPoison, func(v View) float64 { return v.Poison }, has)
	number(metric.QueuePeekedMessages, metric.KindPoison, func(v View) float64 { return min(v.Poison, 32) }, has)
	number(metric.QueueForecastLoss, metric.KindPoison, func(v View) float64 { return v.PoisonLoss }, func(v View) bool { return v.PoisonLoss > 0 })
	for _, e := range []struct {
		kind string
		in   func(View) float64
	}{
		{metric.KindMain, func(v View) float64 { return v.Expiry }},
		{metric.KindPoison, func(v View) float64 { return v.PoisonExpiry }},
	} {
		s.Set(metric.QueueNextExpiration, q.labels("queue_kind", e.kind), func(m int) float64 {
			if _, ok := known(m); !ok || e.in(at(m)) == 0 {
				return Absent()
			}
			return float64(m*60) + e.in(at(m))
		})
	}
	for _, status := range metric.QueueStatuses() {
		there(metric.QueueStatus, q.labels("queue_kind", "main", "status", status), func(_ int, v View) float64 { return truth(v.Status == status) })
	}
	for name, value := range map[string]float64{
		metric.QueueTimeInQueueObjective: settings.Objective, metric.QueueTimeInQueueRatio: settings.Ratio, metric.QueueHandlerTimeLimit: settings.HandlerLimit,
	} {
		if value > 0 {
			there(name, q.labels(), func(int, View) float64 { return value })
		}
	}
	there(metric.QueueMonitorOnly, q.labels(), func(int, View) float64 { return truth(settings.MonitorOnly) })
}

// Work is what a consumer did in a minute, and what it is doing at its end.
type Work struct {
	Gone    bool // no such process
	Restart bool // it starts anew: its counters are 0
	Unseen  bool // it is there, and its scrape was missed

	Received, Redelivered               float64 // deliveries; of those, not the first
	Started, Late                       float64
	Processed, Failed, Retried          float64
	DeadLettered, Unreadable, Released  float64
	Empty, Errors                       float64 // receives
	RenewalsLost, Conflicts, CopyFailed float64
	Waits                               float64 // messages that waited 10 minutes

	Active, Oldest  float64 // handlers running; age of the oldest, seconds
	Max             float64 // default 16
	Paused, Breaker bool
}

// Consume gives a queue the series of one consumer. withoutAccount leaves that label away, as .NET consumers do.
func (s *Scenario) Consume(q ID, instance string, withoutAccount bool, work func(minute int) Work) {
	labels := func(extra ...string) []string {
		q := q
		q.Instance = instance
		if withoutAccount {
			q.Account = ""
		}
		return append(slices.DeleteFunc(q.labels(), func(string) bool { return false }), extra...)
	}
	counter := func(name string, inc func(Work) float64, extra ...string) {
		total := 0.0
		s.Set(name, labels(extra...), func(m int) float64 {
			w := work(m)
			if w.Gone {
				total = 0
				return Absent()
			}
			if w.Restart {
				total = 0
			}
			total += inc(w)
			if w.Unseen {
				return Absent()
			}
			return total
		})
	}
	gauge := func(name string, value func(Work) float64) {
		s.Set(name, labels(), func(m int) float64 {
			if w := work(m); !w.Gone && !w.Unseen {
				return value(w)
			}
			return Absent()
		})
	}
	truth := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	counter(metric.MessagesReceived, func(w Work) float64 { return w.Received })
	counter(metric.MessagesStarted, func(w Work) float64 { return w.Started })
	counter(metric.MessagesLate, func(w Work) float64 { return w.Late })
	counter(metric.MessagesProcessed, func(w Work) float64 { return w.Processed })
	counter(metric.MessagesFailed, func(w Work) float64 { return w.Failed })
	counter(metric.ShutdownReleased, func(w Work) float64 { return w.Released })
	counter(metric.MessageRetries, func(w Work) float64 { return w.Retried }, "category", "transient")
	counter(metric.MessagesDeadLettered, func(w Work) float64 { return w.DeadLettered }, "queue_dead_letter_reason", "max_dequeue")
	counter(metric.MessagesDeadLettered, func(w Work) float64 { return w.Unreadable }, "queue_dead_letter_reason", "deserialization")
	counter(metric.DeadLetterFailures, func(w Work) float64 { return w.CopyFailed }, "stage", "send")
	counter(metric.LeaseRenewalFailures, func(w Work) float64 { return w.RenewalsLost }, "reason", "lost")
	counter(metric.PopReceiptConflicts, func(w Work) float64 { return w.Conflicts }, "operation", "delete")
	counter(metric.ReceiveRequests, func(w Work) float64 { return w.Received }, "queue_receive_result", "message")
	counter(metric.ReceiveRequests, func(w Work) float64 { return w.Empty }, "queue_receive_result", "empty")
	counter(metric.ReceiveRequests, func(w Work) float64 { return w.Errors }, "queue_receive_result", "error")
	counter(metric.DeliveryAttempts+"_bucket", func(w Work) float64 { return w.Received - w.Redelivered }, "le", "1.0")
	counter(metric.DeliveryAttempts+"_bucket", func(w Work) float64 { return w.Received }, "le", "+Inf")
	counter(metric.DeliveryAttempts+"_count", func(w Work) float64 { return w.Received })
	counter(metric.TimeInQueue+"_bucket", func(w Work) float64 { return w.Started - w.Waits }, "le", "60.0")
	counter(metric.TimeInQueue+"_bucket", func(w Work) float64 { return w.Started - w.Waits }, "le", "300.0")
	counter(metric.TimeInQueue+"_bucket", func(w Work) float64 { return w.Started }, "le", "600.0")
	counter(metric.TimeInQueue+"_bucket", func(w Work) float64 { return w.Started }, "le", "+Inf")
	counter(metric.TimeInQueue+"_count", func(w Work) float64 { return w.Started })
	gauge(metric.ActiveHandlers, func(w Work) float64 { return w.Active })
	gauge(metric.MaxHandlers, func(w Work) float64 {
		if w.Max == 0 {
			return 16
		}
		return w.Max
	})
	gauge(metric.OldestHandlerAge, func(w Work) float64 { return w.Oldest })
	gauge(metric.ProcessorPaused, func(w Work) float64 { return truth(w.Paused) })
	gauge(metric.BreakerOpen, func(w Work) float64 { return truth(w.Breaker) })
}

// Process gives a qwatch process the series about itself, while it is there.
func (s *Scenario) Process(cluster, instance string, there func(minute int) bool) {
	labels := []string{"cluster", cluster, "instance", instance, "job", "qwatch"}
	s.Set(metric.QwatchBuildInfo, append(slices.Clone(labels), "version", "v1"), func(m int) float64 {
		if there(m) {
			return 1
		}
		return Absent()
	})
}

// Always is for what is there all the time.
func Always(int) bool { return true }
