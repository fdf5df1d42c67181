package cloudevents_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor/cloudevents"
)

// facts is what a test compares of an event.
type facts struct {
	ID, Type, Source, Subject, Schema, ContentType string
	Time                                           time.Time
	Extensions                                     map[string]any
	Data                                           string
	Binary, None                                   bool
}

func factsOf(e event.Event) facts {
	ext := e.Extensions()
	if len(ext) == 0 {
		ext = nil
	}
	return facts{
		ID: e.ID(), Type: e.Type(), Source: e.Source(), Subject: e.Subject(), Schema: e.DataSchema(), ContentType: e.DataContentType(),
		Time: e.Time(), Extensions: ext, Data: string(e.Data()), Binary: e.DataBase64, None: e.Data() == nil,
	}
}

// base is the least of an event, and more of its members.
func base(more string) string {
	return `{"specversion":"1.0","id":"A234-1234-1234","source":"/mycontext","type":"com.example.someevent"` + more + `}`
}

// TestEventsAreReadAsSpecified holds the forms of CloudEvents' JSON format 1.0.2, sections 2 to 4.
func TestEventsAreReadAsSpecified(t *testing.T) {
	t.Parallel()
	least := facts{ID: "A234-1234-1234", Source: "/mycontext", Type: "com.example.someevent"}
	with := func(change func(*facts)) []facts {
		f := least
		change(&f)
		return []facts{f}
	}
	for name, tt := range map[string]struct {
		body string
		want []facts
	}{
		"without data": {base(``), with(func(f *facts) { f.None = true })},
		"every attribute": {
			base(`,"time":"2018-04-05T17:31:00.5+02:00","subject":"larger-context","dataschema":"https://example.com/s#1","datacontenttype":"application/json; charset=utf-8","data":{"a":1}`),
			with(func(f *facts) {
				f.Time = time.Date(2018, 4, 5, 15, 31, 0, 5e8, time.UTC)
				f.Subject, f.Schema, f.ContentType, f.Data = "larger-context", "https://example.com/s#1", "application/json; charset=utf-8", `{"a":1}`
			}),
		},
		"attributes that are null are unset": {base(`,"subject":null,"time":null,"unsetextension":null,"datacontenttype":null,"data_base64":null`), with(func(f *facts) { f.None = true })},
		"extensions": {base(`,"comexampleextension1":"value","comexampleothervalue":5,"least":-2147483648,"flag":true,"off":false`), with(func(f *facts) {
			f.None = true
			f.Extensions = map[string]any{"comexampleextension1": "value", "comexampleothervalue": int32(5), "least": int32(-2147483648), "flag": true, "off": false}
		})},
		"binary data": {base(`,"datacontenttype":"application/vnd.apache.thrift.binary","data_base64":"AAH/"`), with(func(f *facts) {
			f.ContentType, f.Data, f.Binary = "application/vnd.apache.thrift.binary", "\x00\x01\xff", true
		})},
		"binary data of no bytes":                           {base(`,"data_base64":""`), with(func(f *facts) { f.Binary = true })},
		"data that are XML":                                 {base(`,"datacontenttype":"application/xml","data":"<much wow=\"xml\"/>"`), with(func(f *facts) { f.ContentType, f.Data = "application/xml", `<much wow="xml"/>` })},
		"data that are an empty text":                       {base(`,"datacontenttype":"text/plain","data":""`), with(func(f *facts) { f.ContentType = "text/plain" })},
		"data before their media type":                      {`{"data":"x","datacontenttype":"text/plain","id":"A234-1234-1234","type":"com.example.someevent","source":"/mycontext","specversion":"1.0"}`, with(func(f *facts) { f.ContentType, f.Data = "text/plain", "x" })},
		"a JSON string as data, by the implied media type":  {base(`,"data":"I'm just a string"`), with(func(f *facts) { f.Data = `"I'm just a string"` })},
		"a JSON string that looks like JSON stays a string": {base(`,"datacontenttype":"application/json","data":"{\"a\":1}"`), with(func(f *facts) { f.ContentType, f.Data = "application/json", `"{\"a\":1}"` })},
		"JSON by a structured suffix":                       {base(`,"datacontenttype":"application/cloud+json","data":[1,2]`), with(func(f *facts) { f.ContentType, f.Data = "application/cloud+json", `[1,2]` })},
		"null data are there":                               {base(`,"data":null`), with(func(f *facts) { f.Data = "null" })},
		"an empty subject is none":                          {base(`,"subject":" "`), with(func(f *facts) { f.None = true })},
		"a batch of one":                                    {"[" + base(``) + "]", with(func(f *facts) { f.None = true })},
		"a batch of two":                                    {" [" + base(`,"data":1`) + " , " + base(`,"data":2`) + "]\n", append(with(func(f *facts) { f.Data = "1" }), with(func(f *facts) { f.Data = "2" })...)},
		"a batch of none":                                   {"[]", nil},
		"a byte order mark and white space":                 {"\xef\xbb\xbf \n" + base(``) + "\n", with(func(f *facts) { f.None = true })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, err := cloudevents.Parse([]byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			var got []facts
			for _, e := range events {
				got = append(got, factsOf(e))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// blobCreated is an event of Azure Storage as Event Grid documents it, in both of its schemas.
const (
	blobData        = `{"api":"PutBlockList","clientRequestId":"4c5dd7fb-2c48-4a27-bb30-5361b5de920a","eTag":"0x8D76C39E4407333","contentType":"image/png","contentLength":30699,"blobType":"BlockBlob","url":"https://gridtesting.blob.core.windows.net/testcontainer/f.png","sequencer":"000000000000000000000000000099240000000000c41c18"}`
	blobTopic       = "/subscriptions/319a9601-1ec0-0000-aebc-8fe82724c81e/resourceGroups/testrg/providers/Microsoft.Storage/storageAccounts/myaccount"
	blobSubject     = "/blobServices/default/containers/testcontainer/blobs/f.png"
	blobEventGrid   = `{"topic":"` + blobTopic + `","subject":"` + blobSubject + `","eventType":"Microsoft.Storage.BlobCreated","eventTime":"2019-11-21T22:14:04.5184810Z","id":"9aeb0fdf-c01e-0131-0922-9eb54906e209","data":` + blobData + `,"dataVersion":"","metadataVersion":"1"}`
	blobCloudEvents = `{"source":"` + blobTopic + `","subject":"` + blobSubject + `","type":"Microsoft.Storage.BlobCreated","time":"2019-11-21T22:14:04.5184810Z","id":"9aeb0fdf-c01e-0131-0922-9eb54906e209","data":` + blobData + `,"specversion":"1.0"}`
)

func TestBothSchemasOfEventGridGiveTheSameEvent(t *testing.T) {
	t.Parallel()
	want := facts{
		ID: "9aeb0fdf-c01e-0131-0922-9eb54906e209", Type: "Microsoft.Storage.BlobCreated", Source: blobTopic, Subject: blobSubject,
		Time: time.Date(2019, 11, 21, 22, 14, 4, 518481000, time.UTC), Data: blobData,
	}
	for body, extensions := range map[string]map[string]any{
		blobCloudEvents:           nil,
		blobEventGrid:             {"metadataversion": "1"},
		"[" + blobEventGrid + "]": {"metadataversion": "1"},
		strings.Replace(blobEventGrid, `"dataVersion":""`, `"dataVersion":"2.0","more":{}`, 1): {"metadataversion": "1", "dataversion": "2.0"},
	} {
		events, err := cloudevents.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		want.Extensions = extensions
		if diff := cmp.Diff([]facts{want}, []facts{factsOf(events[0])}); diff != "" {
			t.Error(diff)
		}
	}
}

func TestWhatBreaksTheRulesIsToldWithoutQuotingIt(t *testing.T) {
	t.Parallel()
	const named = "event A234-1234-1234 of type com.example.someevent breaks the rules: "
	const grid = `{"topic":"/t","subject":"s","id":"7","eventType":"T","eventTime":"2019-11-21T22:14:04Z"}`
	for name, tt := range map[string]struct{ body, want string }{
		"nothing":                          {"", "the body is not an event: it is not valid JSON, at byte 0"},
		"no JSON":                          {"hello", "the body is not an event: it is not valid JSON, at byte 1"},
		"a string":                         {`"hello"`, "the body is not an event: it is not a JSON object"},
		"null":                             {"null", "the body is not an event: it is not a JSON object"},
		"broken off":                       {`[{"specversion":`, "the body is not an event: it is not valid JSON, at byte 16"},
		"more after it":                    {base("") + "{}", "the body is not an event: it is not valid JSON, at byte 97"},
		"another object":                   {`{"orderId":7}`, "the body is not an event: it has neither a specversion, as a CloudEvent, nor eventType and eventTime, as Event Grid's schema"},
		"an older version":                 {`{"specversion":"0.3","id":"7","source":"/s","type":"T"}`, "event 7 of type T breaks the rules: specversion is not 1.0"},
		"a version that is a number":       {`{"specversion":1.0,"id":"7","source":"/s","type":"T"}`, "event 7 of type T breaks the rules: specversion is not a string; specversion is not 1.0"},
		"everything missing":               {`{"specversion":"1.0"}`, "the event breaks the rules: id is missing; source is missing; type is missing"},
		"empty attributes":                 {`{"specversion":"1.0","id":"","source":" ","type":"T"}`, "event  of type T breaks the rules: id is empty; source is empty"},
		"attributes of another kind":       {`{"specversion":"1.0","id":7,"source":["/s"],"type":"T","subject":{}}`, "event  of type T breaks the rules: id is not a string; source is not a string; subject is not a string"},
		"a time that is none":              {base(`,"time":"yesterday"`), named + "time is not a time by RFC 3339"},
		"a source that is no URI":          {`{"specversion":"1.0","id":"7","source":"%zz","type":"T"}`, "event 7 of type T breaks the rules: source is not valid"},
		"a schema that is no URI":          {base(`,"dataschema":"%zz"`), named + "dataschema is not valid"},
		"a media type that is none":        {base(`,"datacontenttype":"secret/;;"`), named + "datacontenttype is not valid"},
		"both kinds of data":               {base(`,"data":1,"data_base64":"AA=="`), named + "there are both data and data_base64"},
		"data_base64 that is none":         {base(`,"data_base64":"!"`), named + "data_base64 is not Base64"},
		"data_base64 that is a number":     {base(`,"data_base64":5`), named + "data_base64 is not a string"},
		"an object where a text is due":    {base(`,"datacontenttype":"text/plain","data":{"a":1}`), named + "data are not a string, though datacontenttype is not JSON"},
		"an extension that is an object":   {base(`,"ext":{}`), named + "extension ext is neither a boolean, an integer nor a string"},
		"an extension that is a fraction":  {base(`,"ext":1.5`), named + "extension ext is a number, but not an integer of 32 bits"},
		"an extension out of range":        {base(`,"ext":2147483648`), named + "extension ext is a number, but not an integer of 32 bits"},
		"an extension's name":              {base(`,"secret-name":1`), named + "an attribute's name is not made of lower-case letters and digits"},
		"an extension's name in capitals":  {base(`,"Data":"x"`), named + "an attribute's name is not made of lower-case letters and digits"},
		"one of a batch":                   {"[" + base("") + `,{"specversion":"1.0","id":"7"}]`, "event 2 of the batch of 2: event 7 of type  breaks the rules: source is missing; type is missing"},
		"a batch of something else":        {`[1]`, "event 1 of the batch of 1: the body is not an event: it is not a JSON object"},
		"Event Grid's schema, no topic":    {strings.Replace(grid, `"topic":"/t",`, "", 1), "event 7 of type T breaks the rules: topic is missing"},
		"Event Grid's schema, a bad time":  {strings.Replace(grid, "2019-11-21T22:14:04Z", "now", 1), "event 7 of type T breaks the rules: eventTime is not a time by RFC 3339"},
		"a long id":                        {`{"specversion":"1.0","id":"` + strings.Repeat("é", 200) + `","source":"/s"}`, "event " + strings.Repeat("é", 100) + "… of type  breaks the rules: type is missing"},
		"more events than anybody batches": {"[" + strings.Repeat("0,", 10_000) + "0]", "the batch has 10001 events: more than 10000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, err := cloudevents.Parse([]byte(tt.body))
			if err == nil {
				t.Fatalf("read as %v", events)
			}
			if err.Error() != tt.want {
				t.Errorf("error\n%s\nwant\n%s", err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		base(`,"data":{"a":1},"ext":5`), base(`,"data_base64":"AAH/"`), base(`,"datacontenttype":"text/plain","data":"x"`),
		"[" + base("") + "," + blobEventGrid + "]", blobCloudEvents, `{"specversion":"1.0","data_base64":5}`, "[]", "{}", "[null]", `{"specversion":"1.0","":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		events, err := cloudevents.Parse(body)
		if err != nil {
			if len(err.Error()) > 64<<10 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		for _, e := range events {
			if err := e.Validate(); err != nil {
				t.Fatalf("what was read is not valid: %v", err)
			}
			text, err := json.Marshal(e) // by the SDK
			if err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			again, err := cloudevents.Parse(text)
			if err != nil {
				t.Fatalf("what the SDK wrote cannot be read: %v\n%s", err, text)
			}
			a, b := factsOf(e), factsOf(again[0])
			if a.Data, b.Data = compact(a), compact(b); !cmp.Equal(a, b) {
				t.Errorf("written by the SDK and read again it differs (-was +is):\n%s", cmp.Diff(a, b))
			}
		}
	})
}

// compact takes the white space out of data that are JSON.
func compact(f facts) string {
	var v any
	if f.Binary || json.Unmarshal([]byte(f.Data), &v) != nil {
		return f.Data
	}
	b, _ := json.Marshal(v)
	return string(b)
}
