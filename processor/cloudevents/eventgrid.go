package cloudevents

import "github.com/cloudevents/sdk-go/v2/event"

// eventGrid reads an event in Event Grid's own schema. Members that it does not know are left out.
func (p *parser) eventGrid() {
	e := &p.event
	e.SetSpecVersion(event.CloudEventsVersionV1)
	p.need("id", e.SetID)
	p.need("topic", e.SetSource) // Event Grid puts it there if the publisher did not
	p.need("eventType", e.SetType)
	p.text("subject", e.SetSubject)
	p.time("eventTime")
	if raw, ok := p.members["data"]; ok {
		e.DataEncoded = raw
	}
	for member, extension := range map[string]string{"dataVersion": "dataversion", "metadataVersion": "metadataversion"} {
		p.text(member, func(s string) {
			if s != "" {
				e.SetExtension(extension, s)
			}
		})
	}
}
