package tabletest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"
	"unicode/utf16"
)

// tooLarge checks the service's limits: 64 KiB a property, 1 MiB an entity, strings in UTF-16.
func tooLarge(properties map[string]json.RawMessage) string {
	total := 0
	for name, raw := range properties {
		n := len(raw)
		var s string
		if json.Unmarshal(raw, &s) == nil {
			n = 2 * len(utf16.Encode([]rune(s)))
			if text(properties[name+"@odata.type"]) == "Edm.Binary" {
				n = base64.StdEncoding.DecodedLen(len(s)) - strings.Count(s, "=")
			}
		}
		if n > 64<<10 {
			return "PropertyValueTooLarge"
		}
		total += n + 2*len(name)
	}
	if total > 1<<20 {
		return "EntityTooLarge"
	}
	return ""
}

// query understands comparisons joined by " and ", with texts and times.
func (s *Service) query(c call) answer {
	if s.tables[c.table] == nil {
		return refusal(http.StatusNotFound, "TableNotFound")
	}
	size := s.PageSize
	if size == 0 {
		size = 1000
	}
	from := keys{c.query.Get("NextPartitionKey"), c.query.Get("NextRowKey")}
	a := answer{status: http.StatusOK, header: map[string]string{}}
	page := []map[string]json.RawMessage{}
	for _, k := range s.sorted(c.table) {
		e := s.tables[c.table][k]
		if k.partition < from.partition || k.partition == from.partition && k.row < from.row || !matches(c.query.Get("$filter"), e.properties) {
			continue
		}
		if len(page) == size {
			a.header["x-ms-continuation-NextPartitionKey"] = k.partition
			a.header["x-ms-continuation-NextRowKey"] = k.row
			break
		}
		page = append(page, selected(c.query.Get("$select"), e.properties))
	}
	a.body, _ = json.Marshal(map[string]any{"value": page})
	return a
}

func matches(filter string, properties map[string]json.RawMessage) bool {
	if filter == "" {
		return true
	}
	for term := range strings.SplitSeq(filter, " and ") {
		f := strings.SplitN(term, " ", 3)
		if len(f) != 3 {
			panic("tabletest: cannot read the filter " + filter)
		}
		raw, ok := properties[f[0]]
		if !ok {
			return false
		}
		n := compare(text(raw), f[2])
		if ok := map[string]bool{"eq": n == 0, "ne": n != 0, "lt": n < 0, "le": n <= 0, "gt": n > 0, "ge": n >= 0}[f[1]]; !ok {
			return false
		}
	}
	return true
}

// compare compares a property's value with a filter's literal.
func compare(value, literal string) int {
	s, isTime := strings.CutPrefix(literal, "datetime")
	s = strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(s, "'"), "'"), "''", "'")
	if !isTime {
		return strings.Compare(value, s)
	}
	a, errA := time.Parse(time.RFC3339, value)
	b, errB := time.Parse(time.RFC3339, s)
	if errA != nil || errB != nil {
		panic("tabletest: cannot compare " + value + " and " + literal)
	}
	return a.Compare(b)
}

func selected(names string, properties map[string]json.RawMessage) map[string]json.RawMessage {
	if names == "" {
		return properties
	}
	some := map[string]json.RawMessage{"odata.etag": properties["odata.etag"]}
	for name := range strings.SplitSeq(names, ",") {
		for _, n := range []string{name, name + "@odata.type"} {
			if v, ok := properties[n]; ok {
				some[n] = v
			}
		}
	}
	return some
}
