package alerts

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// DefaultRunbooks is where the runbooks are published: one page an alert, named after it.
const DefaultRunbooks = "https://github.com/qwatch/qwatch/blob/main/docs/runbooks"

// Config is what the rules depend on. The zero Config is good.
type Config struct {
	// PollInterval is how often the queues are polled. Default 1m. Windows that compare polls grow with a
	// longer one.
	PollInterval time.Duration
	// Interval between two evaluations of the rules. Default 1m, at least 15s.
	Interval time.Duration
	// Runbooks is the URL below which the runbooks lie. Default DefaultRunbooks.
	Runbooks string
	// Grafana is the URL of the Grafana that has the dashboards. Default "": alerts do not link to them.
	Grafana string
	// Labels are put on every alert, and on nothing that is recorded. Default: none.
	Labels map[string]string
	// MonthlyBudget for the storage requests of an account, in the currency of the configured price.
	// Default 0: only a cost that doubles within a week is told.
	MonthlyBudget float64
	// Scale multiplies every duration: windows, waits and thresholds that are times. It is for tests that
	// want to see alerts fire within seconds. Default 1; above 0.
	Scale float64
}

func (c Config) withDefaults() Config {
	if c.PollInterval == 0 {
		c.PollInterval = time.Minute
	}
	if c.Interval == 0 {
		c.Interval = time.Minute
	}
	if c.Runbooks == "" {
		c.Runbooks = DefaultRunbooks
	}
	c.Runbooks = strings.TrimSuffix(c.Runbooks, "/")
	c.Grafana = strings.TrimSuffix(c.Grafana, "/")
	if c.Scale == 0 {
		c.Scale = 1
	}
	return c
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (c Config) validate() error {
	var errs []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	add(c.PollInterval < time.Second, "the poll interval %v is shorter than 1s", c.PollInterval)
	add(c.Interval < 15*time.Second, "the interval between evaluations %v is shorter than 15s", c.Interval)
	add(c.Scale < 0, "the scale %v is not above 0", c.Scale)
	add(c.MonthlyBudget < 0, "the monthly budget %v is below 0", c.MonthlyBudget)
	for what, link := range map[string]string{"runbooks": c.Runbooks, "grafana": c.Grafana} {
		u, err := url.Parse(link)
		add(link != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https"), "the URL of %s %q is not one of http or https", what, link)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		add(!labelName.MatchString(name) || strings.HasPrefix(name, "__"), "label %q: not a label's name: letters, digits and underscores", name)
		add(slices.Contains(reserved(), name), "label %q: the rules set it themselves", name)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// reserved are the labels that tell one alert from another.
func reserved() []string {
	return []string{"alertname", "severity", "cluster", "account", "queue_name", "queue_kind", "tier", "window", "instance"}
}

// Rules are every rule, in groups of at most twenty that are evaluated one after another.
type Rules struct {
	Groups []Group

	cfg Config
}

// Group is evaluated in the order of its rules, every Interval.
type Group struct {
	Name     string
	Interval time.Duration
	Rules    []Rule
}

// Rule is a recording rule when Record is set, otherwise an alert.
type Rule struct {
	Record string
	Alert  string
	Expr   string // PromQL

	// What follows is for alerts.

	For           time.Duration
	KeepFiringFor time.Duration
	Class         Class
	Scope         Scope
	// Window tells apart rules that share an alert's name; "" where there is one.
	Window      string
	Labels      map[string]string // Severity's template among them
	Annotations map[string]string // summary, description, runbook_url, and dashboard_url with Config.Grafana

	// Condition is Expr before it was held, for a recording rule with Hold; otherwise "".
	Condition string
	// Hold says that the recorded condition stays as it was while the queue cannot be seen: losing sight of
	// it does not mend it. It is kept while Held yields a series for the queue.
	Hold bool
	// Held is the expression that says which queues cannot be seen now, though they could lately.
	Held string
}

// Class is how much an alert asks of people. The tier of the queue makes a severity of it.
type Class int

// The classes.
const (
	Page   Class = iota + 1 // somebody should get up: critical at tier 1, warning at tier 2, info at tier 3
	Ticket                  // somebody should look today: warning at tiers 1 and 2, info at tier 3
	Note                    // good to know: info at every tier
)

// String returns "page", "ticket" or "note".
func (c Class) String() string {
	switch c {
	case Page:
		return "page"
	case Ticket:
		return "ticket"
	case Note:
		return "note"
	default:
		return ""
	}
}

// The severities.
const (
	Critical = "critical"
	Warning  = "warning"
	Info     = "info"
)

// Severity returns the severity of an alert of this class about a queue of a tier; 0 is no tier, which
// counts as 2.
func (c Class) Severity(tier int) string {
	if tier < 1 || tier > 3 {
		tier = 2
	}
	switch {
	case c == Page && tier == 1:
		return Critical
	case c == Note, tier == 3:
		return Info
	default:
		return Warning
	}
}

// Scope is what an alert is about, and thereby whose tier decides its severity.
type Scope int

// The scopes.
const (
	Queue   Scope = iota + 1 // a queue: its tier
	Account                  // a storage account: the tier of its most important queue
	Self                     // qwatch itself: tier 1
)

// String returns "queue", "account" or "qwatch".
func (s Scope) String() string {
	switch s {
	case Queue:
		return "queue"
	case Account:
		return "account"
	case Self:
		return "qwatch"
	default:
		return ""
	}
}

// severityLabel is the value of the severity label: a template where the tier decides.
func severityLabel(c Class, s Scope) string {
	if s == Self {
		return c.Severity(1)
	}
	one, two, three := c.Severity(1), c.Severity(2), c.Severity(3)
	switch {
	case one == two && two == three:
		return one
	case one == two:
		return fmt.Sprintf(`{{ if eq $labels.tier "3" }}%s{{ else }}%s{{ end }}`, three, one)
	default:
		return fmt.Sprintf(`{{ if eq $labels.tier "1" }}%s{{ else if eq $labels.tier "3" }}%s{{ else }}%s{{ end }}`, one, three, two)
	}
}

// Generate returns the rules. Its error tells every fault of the Config.
func Generate(cfg Config) (Rules, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return Rules{}, fmt.Errorf("alerts: %w", err)
	}
	g := generator{cfg}
	rules := Rules{cfg: cfg}
	for _, group := range catalogue(cfg) {
		out := Group{Name: group.name, Interval: g.interval()}
		for _, r := range group.records {
			out.Rules = append(out.Rules, g.record(r))
		}
		for _, a := range group.alerts {
			out.Rules = append(out.Rules, g.alert(a))
		}
		rules.Groups = append(rules.Groups, out)
	}
	return rules, nil
}

// Alerts returns the names of the alerts, in order, each once.
func (r Rules) Alerts() []string {
	var names []string
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			if rule.Alert != "" && !slices.Contains(names, rule.Alert) {
				names = append(names, rule.Alert)
			}
		}
	}
	return names
}
