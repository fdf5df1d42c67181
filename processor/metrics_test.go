package processor_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// The table of metrics is a leaf and repeats what other packages define.
func TestMetricLabelsAreWhatTheOwnersDefine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		metric, label string
		want          []string
	}{
		"storage operations":    {metric.StorageRequestDuration, metric.LabelOperation, texts(queue.Operations())},
		"storage results":       {metric.StorageRequestDuration, metric.LabelResult, texts(queue.Results())},
		"dead-letter reasons":   {metric.MessagesDeadLettered, metric.LabelDeadLetterReason, texts(poison.Categories())},
		"stages of dead-letter": {metric.DeadLetterFailures, metric.LabelStage, texts([]poison.Stage{poison.StageSend, poison.StageDelete})},
		"outcomes": {metric.ProcessingDuration, metric.LabelOutcome, []string{
			queue.Completed.String(), queue.Abandoned.String(), queue.DeadLettered.String(), queue.LeaseLost.String(), metric.OutcomeInterrupted,
		}},
		"failures of polls": {metric.QueuePollFailures, metric.LabelReason, slices.DeleteFunc(texts(queue.Results()), func(r string) bool {
			return r == string(queue.ResultOK) || r == string(queue.ResultConflict)
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, metric.Of(tt.metric).Values(tt.label)); diff != "" {
				t.Errorf("(-owner +table):\n%s", diff)
			}
		})
	}
}

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

func TestEveryConsumerMetricIsThereBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, r *rig) {
		run := r.start(processor.Config{}, processor.HandlerFunc(func(context.Context, *processor.Message) error { return nil }))
		synctest.Wait()
		families, err := r.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, d := range metric.Catalogue() {
			if d.Owner == metric.OwnedByConsumer {
				want = append(want, d.Name)
			}
		}
		for _, f := range families {
			got = append(got, f.GetName())
			for _, m := range f.Metric {
				if v := m.GetCounter().GetValue(); v != 0 && f.GetName() != metric.ReceiveRequests {
					t.Errorf("%s is %v already", f.GetName(), v)
				}
				labels := map[string]string{}
				for _, l := range m.Label {
					labels[l.GetName()] = l.GetValue()
				}
				if labels[metric.LabelAccount] != account || labels[metric.LabelQueue] != "orders" {
					t.Errorf("%s has labels %v", f.GetName(), labels)
				}
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("families (-catalogue +exported):\n%s", diff)
		}
		r.end(run)
		run.Close()
		if n, err := testutil.GatherAndCount(r.reg); err != nil || n != 0 {
			t.Errorf("%d series after Close, %v", n, err)
		}
	})
}

func TestSentIsCountedWithoutAProcessor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		metrics := processor.NewMetrics(reg, processor.MetricsOptions{})
		r := newRig(t, queue.Config{OnSend: metrics.Sent(account, "orders")})
		r.send("one", "two")
		if n, err := testutil.GatherAndCount(reg); err != nil || n != 1 {
			t.Errorf("%d series, want 1; %v", n, err)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if f := families[0]; f.GetName() != metric.MessagesSent || f.Metric[0].GetCounter().GetValue() != 2 {
			t.Errorf("counted %v", f)
		}
	})
}

func TestBucketsAreTakenOver(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, r *rig) {
		processor.NewMetrics(r.reg, processor.MetricsOptions{ // what the rig asks for later finds these
			Native: true, ProcessingBuckets: []time.Duration{time.Second}, WaitBuckets: []time.Duration{time.Minute, time.Hour},
		})
		run := r.start(processor.Config{}, processor.HandlerFunc(func(context.Context, *processor.Message) error { return nil }))
		families, err := r.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, f := range families {
			if h := f.Metric[0].Histogram; h != nil {
				got[f.GetName()] = len(h.Bucket)
				if h.Schema == nil {
					t.Errorf("%s is not native", f.GetName())
				}
			}
		}
		want := map[string]int{
			metric.ProcessingDuration: 1, metric.TimeInQueue: 2, metric.MessageSize: 10,
			metric.DeliveryAttempts: 11, metric.AttemptsToComplete: 11,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("buckets (-want +got):\n%s", diff)
		}
		r.end(run)
	})
}

func TestNoMetricsCountNothing(t *testing.T) {
	t.Parallel()
	var none *processor.Metrics
	none.Sent(account, "orders")()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Config{})
		r.send("one")
		p, err := processor.New(r.q, processor.HandlerFunc(func(context.Context, *processor.Message) error { return nil }), processor.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
		if left := r.srv.Messages(queuetest.AccountName, "orders"); len(left) != 0 {
			t.Errorf("%d messages left", len(left))
		}
	})
}
