package scenario

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// WriteOpenMetrics writes the scenario as `promtool tsdb create-blocks-from openmetrics` reads it, minute 0 being
// begin. Timestamps
// that are values are counted from there as well.
func (s *Scenario) WriteOpenMetrics(w io.Writer, begin time.Time) error {
	b := bufio.NewWriter(w)
	family := ""
	s.Each(func(series string, values []float64) {
		if name, _, _ := strings.Cut(series, "{"); name != family {
			family = name
			fmt.Fprintf(b, "# TYPE %s unknown\n", name)
		}
		for m, v := range values {
			if strings.HasSuffix(family, "_timestamp_seconds") && v > 0 {
				v += float64(begin.Unix())
			}
			if !math.IsNaN(v) {
				fmt.Fprintf(b, "%s %s %d\n", series, number(v), begin.Add(time.Duration(m)*time.Minute).Unix())
			}
		}
	})
	fmt.Fprintln(b, "# EOF")
	return b.Flush()
}
