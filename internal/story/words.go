package story

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration writes a duration in the two units that matter: "45 s", "12 m 3 s", "3 d 4 h".
func Duration(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	if d < time.Second && d > 0 {
		return fmt.Sprintf("%d ms", max(1, d.Milliseconds()))
	}
	s := int64(d.Round(time.Second) / time.Second)
	two := func(a int64, au string, b int64, bu string) string {
		if b == 0 {
			return fmt.Sprintf("%d %s", a, au)
		}
		return fmt.Sprintf("%d %s %d %s", a, au, b, bu)
	}
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return two(s/60, "m", s%60, "s")
	case s < 86400:
		return two(s/3600, "h", s%3600/60, "m")
	default:
		return two(s/86400, "d", s%86400/3600, "h")
	}
}

// Short writes a duration in one unit, or in two where one says too little: "45 m", "4 h 10 m".
func Short(d time.Duration) string {
	text := Duration(d)
	if major, _, two := strings.Cut(text, " "); two && len(major) > 1 {
		if fields := strings.Fields(text); len(fields) > 2 {
			return fields[0] + " " + fields[1]
		}
	}
	return text
}

// Count writes a number with its noun: "1 message", "12,345 messages".
func Count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if before, ok := strings.CutSuffix(noun, "y"); ok && !strings.HasSuffix(before, "a") && !strings.HasSuffix(before, "e") {
		noun = before + "ie"
	}
	return Digits(n) + " " + noun + "s"
}

// Digits groups the digits of a number by thousands.
func Digits(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// rate writes a number of messages a second as people say it.
func rate(perSecond float64) string {
	switch {
	case perSecond <= 0:
		return "none"
	case perSecond >= 10:
		return fmt.Sprintf("%.0f/s", perSecond)
	case perSecond >= 0.1:
		return fmt.Sprintf("%.1f/s", perSecond)
	case perSecond*60 >= 0.1:
		return fmt.Sprintf("%.1f/min", perSecond*60)
	default:
		return fmt.Sprintf("%.1f/h", perSecond*3600)
	}
}

// percent writes a share.
func percent(part, whole int64) string {
	if whole == 0 {
		return "0 %"
	}
	p := float64(part) / float64(whole) * 100
	if p > 0 && p < 10 || p > 99 && p < 100 {
		return fmt.Sprintf("%.1f %%", p)
	}
	return fmt.Sprintf("%.0f %%", p)
}

// cut shortens foreign text.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// some names the first few of many.
func some(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %s more", strings.Join(names[:most], ", "), Digits(int64(len(names)-most)))
}
