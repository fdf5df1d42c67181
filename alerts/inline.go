package alerts

import (
	"fmt"
	"regexp"
	"strings"
)

// Standalone returns a copy of the rules without recording rules: what the alerts refer to is written out in their
// expressions, so that they can be asked of a Prometheus that never had the rules. Condition and Held are
// then set on alerts whose condition is held: Expr is the condition as it is seen, and who asks has to hold it.
func (r Rules) Standalone() (Rules, error) {
	in := inliner{records: map[string]Rule{}, step: promDuration(r.cfg.scaledInterval())}
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			if rule.Record != "" {
				in.records[rule.Record] = rule
			}
		}
	}
	out := Rules{cfg: r.cfg}
	for _, g := range r.Groups {
		group := Group{Name: g.Name, Interval: g.Interval}
		for _, rule := range g.Rules {
			if rule.Alert == "" {
				continue
			}
			held := in.held(rule.Expr)
			var err error
			if rule.Expr, err = in.expand(rule.Expr, 0); err != nil {
				return Rules{}, fmt.Errorf("alerts: write out %s: %w", rule.Alert, err)
			}
			if held != "" {
				rule.Hold, rule.Held = true, held
			}
			group.Rules = append(group.Rules, rule)
		}
		if len(group.Rules) > 0 {
			out.Groups = append(out.Groups, group)
		}
	}
	return out, nil
}

type inliner struct {
	records map[string]Rule
	step    string
}

var (
	reference   = regexp.MustCompile(`([a-z_]+:[a-z0-9_]+(?::[a-z0-9_]+)*)(\{[^}]*\})?(\[[^\]]+\])?`)
	aggregation = regexp.MustCompile(`^(?:max|min|sum) by \([^)]*\) \(([a-z_]+)\)$`)
)

// maxDepth is how deep records refer to records.
const maxDepth = 8

// held returns what says that the alert's queue cannot be seen, when its first reference is to what is held.
func (in inliner) held(expr string) string {
	if m := reference.FindStringSubmatch(expr); m != nil {
		return in.records[m[1]].Held
	}
	return ""
}

func (in inliner) expand(expr string, depth int) (string, error) {
	if depth > maxDepth {
		return "", fmt.Errorf("records refer to each other more than %d deep", maxDepth)
	}
	var failed error
	out := reference.ReplaceAllStringFunc(expr, func(s string) string {
		m := reference.FindStringSubmatch(s)
		record, ok := in.records[m[1]]
		if !ok {
			return s
		}
		body := record.Expr
		if record.Hold {
			body = "(" + record.Condition + ") unless on (cluster, account, queue_name) max by (cluster, account, queue_name) (queue_up{queue_kind=\"main\"}) == 0"
		}
		if m[2] != "" {
			inner := aggregation.FindStringSubmatch(body)
			if inner == nil {
				failed = fmt.Errorf("%s is selected from by %s", m[1], m[2])
				return s
			}
			body = strings.Replace(body, "("+inner[1]+")", "("+inner[1]+m[2]+")", 1)
		}
		body, err := in.expand(body, depth+1)
		if err != nil {
			failed = err
		}
		if window := strings.Trim(m[3], "[]"); window != "" {
			return "(" + body + ")[" + window + ":" + in.step + "]"
		}
		return "(" + body + ")"
	})
	return out, failed
}
