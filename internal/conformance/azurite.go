package conformance

// deviation is something that Azurite does in another way than Azure.
type deviation struct {
	does any    // what it does, or a []string of what it does one time or another
	why  string // the reason, as far as it is known
}

const (
	noCode     = "its generated parser refuses what the protocol's schema rules out, without an error code"
	xmlParser  = "its XML parser's errors carry no error code"
	xmlLenient = "it looks for a text element only"
	xmlAny     = "it does not check characters"
	noClock    = "it does not check the date"
	oneError   = "it has one error for requests that no authenticator accepts"
	sasObjects = "it takes single messages for containers, not objects"
	metaNames  = "it does not check metadata"
	opaque     = "it compares receipts as text"
)

// azuriteDiffers has Azurite's deviations, seen with 3.35.0, by what is checked.
var azuriteDiffers = map[string]deviation{
	"create a deleted queue again at once":     {"ok", "it forgets a deleted queue at once"},
	"a metadata name with a hyphen":            {"204", metaNames},
	"a metadata name that starts with a digit": {"204", metaNames},
	"an empty metadata name":                   {"204", metaNames},
	"more than 8 KiB of metadata":              {"204", metaNames},

	"queues in pages of two":             {"[[one-0 one-1] [one-2]]", "its markers follow the order of creation, so that pages miss queues created earlier"},
	"maxresults of 0":                    {"400", noCode},
	"maxresults of -1":                   {"400", noCode},
	"maxresults that is no number":       {"400", noCode},
	"include of something unknown":       {"400", noCode},
	"pop receipts in a batch of 32":      {"1", "it makes one receipt for a whole batch"},
	"delete with a receipt that is none": {"400 PopReceiptMismatch", opaque},
	"update with a receipt that is none": {"400 PopReceiptMismatch", opaque},
	"delete without a receipt":           {"400", noCode},

	"receive 0 messages":                            {"400", noCode},
	"receive -1 messages":                           {"400", noCode},
	"receive x messages":                            {"400", noCode},
	"receive for x s":                               {"400", noCode},
	"peek at 0 messages":                            {"400", noCode},
	"update for x s":                                {"400", noCode},
	"update without a visibility timeout":           {"400", noCode},
	"time to live of -2":                            {"400", noCode},
	"time to live that is no number":                {"400", noCode},
	"send with a delay of 7 days, the time to live": {"201", "it compares the delay with a time to live in the request only"},
	"65536 bytes in 32768 characters":               {[]string{"ok", "413 RequestBodyTooLarge"}, "it decodes the parts of a body as they arrive, and breaks characters that lie across two"},
	"count after refused sends":                     {"2", "it took the delay of 7 days"},

	"a raw carriage return comes back":      {`"a\r\nb\rc"`, "its XML parser keeps raw carriage returns"},
	"send no XML":                           {"400", xmlParser},
	"send no end tags":                      {"400", xmlParser},
	"send crossed tags":                     {"400", xmlParser},
	"send a raw ampersand":                  {"400", xmlParser},
	"send an unknown entity":                {"400", xmlParser},
	"send an element in the text":           {"400", xmlParser},
	"send half a tag":                       {"400", xmlParser},
	"send a reference to a control":         {"400", xmlParser},
	"send a reference to a surrogate":       {"400", xmlParser},
	"send a document type declaration":      {"400", xmlParser},
	"send another root":                     {"201", xmlLenient},
	"send something after the root":         {"201", xmlLenient},
	"messages after refused documents":      {"2", xmlLenient},
	"send a raw control character":          {"201", xmlAny},
	"receive after a raw control character": {"500", "it cannot write the character back, and hides the batch nevertheless"},
	"send a byte that is not UTF-8":         {"201", xmlAny},
	"send U+FFFE":                           {"201", xmlAny},

	"no credentials":                     {"403 AuthenticationFailed", oneError},
	"credentials of another kind":        {"403 AuthenticationFailed", oneError},
	"a shared key without a signature":   {"403 AuthenticationFailed", oneError},
	"a request of 16 minutes ago":        {"200", noClock},
	"a request of 16 minutes from now":   {"200", noClock},
	"a request with a date that is none": {"200", noClock},
	"update with a SAS for objects":      {"403 AuthorizationResourceTypeMismatch", sasObjects},
	"delete with a SAS for objects":      {"403 AuthorizationResourceTypeMismatch", sasObjects},

	"GET something under a queue is a client's error":  {"2", "it takes it for messages"},
	"a broken escape in the query is a client's error": {"5", "it fails to decode it"},
	"messages peeked with upper-case parameters":       {"1", "it ignores parameters in upper case"},
}
