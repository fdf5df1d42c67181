package alerts

import (
	"io"
	"strings"
)

type inhibitFile struct {
	InhibitRules []inhibitRule `yaml:"inhibit_rules"`
}

type inhibitRule struct {
	Source []string `yaml:"source_matchers"`
	Target []string `yaml:"target_matchers"`
	Equal  []string `yaml:"equal"`
}

// WriteAlertmanager writes inhibition rules for Alertmanager 0.22 or newer: what follows from something
// that fires already is not told. They are to be joined with the inhibit_rules that are there.
func (r Rules) WriteAlertmanager(w io.Writer) error { return writeYAML(w, inhibitFile{inhibitions()}) }

func inhibitions() []inhibitRule {
	is := func(names ...string) string {
		if len(names) == 1 {
			return `alertname="` + names[0] + `"`
		}
		return `alertname=~"` + strings.Join(names, "|") + `"`
	}
	queue, account := []string{"cluster", "account", "queue_name"}, []string{"cluster", "account"}
	return []inhibitRule{
		// Without qwatch, that its series are gone says nothing.
		{[]string{is("QwatchAbsent")}, []string{is("QwatchQueueSeriesVanished", "QwatchDiscoveredQueueDeleted", "QwatchLeaderMissing")}, []string{"cluster"}},
		// An account that is out of reach stands for all its queues.
		{[]string{is("QwatchAccountUnreachable")}, []string{`alertname=~"Qwatch.+"`, `queue_name!=""`}, account},
		{[]string{is("QwatchAccountUnreachable")}, []string{is("QwatchStorageThrottled", "QwatchDiscoveryFailing")}, account},
		// A queue that is not there has no other trouble.
		{[]string{is("QwatchQueueMissing")}, []string{is(
			"QwatchConsumerStalled", "QwatchMessagesRetriedInVain", "QwatchHeadOfQueueStuck", "QwatchQueuePollFailing", "QwatchQueuePollStale",
			"QwatchQueueSeriesVanished", "QwatchReceiveFailing", "QwatchScalingSignalStale",
		)}, queue},
		// A stall is why the backlog grows and the head grows old.
		{[]string{is("QwatchConsumerStalled", "QwatchMessagesRetriedInVain")}, []string{is(
			"QwatchHeadOfQueueStuck", "QwatchBacklogGrowing", "QwatchBacklogPredictedLate", "QwatchHeadLateBudgetBurn", "QwatchConsumersSaturated",
		)}, queue},
		{[]string{is("QwatchPoisonGrowing")}, []string{is("QwatchPoisonMessages", "QwatchMessagesDeadLettered", "QwatchDeadLetterRatioHigh")}, queue},
		// Of two windows or thresholds of one alert, the more urgent is enough.
		{[]string{`alertname=~"Qwatch.+"`, `severity="critical"`}, []string{`alertname=~"Qwatch.+"`, `severity=~"warning|info"`}, append([]string{"alertname"}, queue...)},
		{[]string{`alertname=~"Qwatch.+"`, `severity="warning"`}, []string{`alertname=~"Qwatch.+"`, `severity="info"`}, append([]string{"alertname"}, queue...)},
	}
}
