package dashboards

import "github.com/qwatch/qwatch/internal/metric"

// Colours mean one thing on every dashboard. Series that are told apart by queue or instance get
// theirs from their name, so that a queue has one colour everywhere.
const (
	colourGood   = "green"            // it works, it is done
	colourLook   = "yellow"           // somebody should look in working hours: late, behind, degraded
	colourBad    = "red"              // somebody should look now: stopped, lost, unreachable
	colourRetry  = "orange"           // it failed and is tried again
	colourPoison = "purple"           // in or on the way to a poison queue
	colourInfo   = "blue"             // an amount or a rate, neither good nor bad
	colourWait   = "light-blue"       // visible: waits for a consumer
	colourHidden = "super-light-blue" // held by a consumer, or put off
	colourQuiet  = "gray"             // nothing there, or nothing known
	colourLimit  = "dark-yellow"      // an objective or a limit that others are measured against
)

// none, some and any colour a count: nothing is good, and anything is as bad as the colour says.
func noneElse(colour string) []step { return []step{{0, colourGood}, {1, colour}} }

// quietElse is noneElse for what is nothing to be proud of when it is 0.
func quietElse(colour string) []step { return []step{{0, colourQuiet}, {1, colour}} }

// codes are the statuses of a queue as numbers: the higher, the sooner somebody should look.
func codes() []value {
	return []value{
		{1, "ok", colourGood},
		{2, "idle", colourQuiet},
		{3, "unknown", colourQuiet},
		{4, "paused", colourInfo},
		{5, "hidden", colourLook},
		{6, "falling behind", colourLook},
		{7, "stalled", colourBad},
		{8, "unreachable", colourBad},
		{9, "missing", colourBad},
	}
}

// poisonCodes are the statuses of a poison queue as numbers.
func poisonCodes() []value {
	return []value{
		{1, "empty", colourGood},
		{2, "unknown", colourQuiet},
		{3, "holding", colourPoison},
		{4, "growing", colourBad},
	}
}

// statusColours paints series that are called by a status.
func statusColours() []painted {
	return []painted{
		{"ok", colourGood},
		{"idle|unknown", colourQuiet},
		{"paused", colourInfo},
		{"hidden|falling_behind", colourLook},
		{"stalled|unreachable|missing", colourBad},
	}
}

// outcomeColours paints series that are called by an outcome, as a legend or at its end.
func outcomeColours() []painted {
	return []painted{
		{".*" + metric.OutcomeCompleted, colourGood},
		{".*" + metric.OutcomeAbandoned, colourRetry},
		{".*" + metric.OutcomeDeadLettered, colourPoison},
		{".*" + metric.OutcomeLeaseLost, colourBad},
		{".*" + metric.OutcomeInterrupted, colourLook},
	}
}

// atLeast32 says that a full peek is a floor.
func atLeast32() []value { return []value{{32, "32 or more", ""}} }

// shares colours a share that should be whole.
func shares() []step { return []step{{0, colourBad}, {0.95, colourLook}, {0.99, colourGood}} }
