package conformance

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

var listCases = map[string]func(*env){
	"queues are listed by prefix": func(e *env) {
		for _, i := range []int{3, 1, 4, 0, 2} {
			_, err := e.svc.NewQueueClient(fmt.Sprintf("%s-one-%d", e.name, i)).Create(e.ctx, &azqueue.CreateOptions{
				Metadata: map[string]*string{"place": new(fmt.Sprintf("<%d>", i))},
			})
			e.must(err)
		}
		_, err := e.svc.NewQueueClient(e.name+"-two").Create(e.ctx, nil)
		e.must(err)

		all := e.list(&azqueue.ListQueuesOptions{Prefix: new(e.name + "-one-")})
		e.expect("queues with a prefix", all, "[[one-0 one-1 one-2 one-3 one-4]]")
		pages := e.list(&azqueue.ListQueuesOptions{Prefix: new(e.name + "-one-"), MaxResults: new(int32(2))})
		e.expect("queues in pages of two", pages, "[[one-0 one-1] [one-2 one-3] [one-4]]")
		meta := e.list(&azqueue.ListQueuesOptions{Prefix: new(e.name + "-one-"), Include: azqueue.ListQueuesInclude{Metadata: true}})
		e.expect("queues with metadata", meta, "[[one-0:place=<0> one-1:place=<1> one-2:place=<2> one-3:place=<3> one-4:place=<4>]]")
		e.expect("queues with a prefix that none has", e.list(&azqueue.ListQueuesOptions{Prefix: new(e.name + "-none")}), "[[]]")
		e.expect("queues with a name as the prefix", e.list(&azqueue.ListQueuesOptions{Prefix: new(e.name + "-two")}), "[[two]]")
		e.expect("a last page that is full", e.list(&azqueue.ListQueuesOptions{Prefix: new(e.name + "-one-"), MaxResults: new(int32(5))}), "[[one-0 one-1 one-2 one-3 one-4]]")
	},
	"a page of queues has limits": func(e *env) {
		list := func(query string) string {
			r := e.do(request{method: "GET", path: "/", query: "comp=list&prefix=list-limits&" + query})
			return r.String()
		}
		e.expect("maxresults of 0", list("maxresults=0"), "400 OutOfRangeQueryParameterValue")
		e.expect("maxresults of -1", list("maxresults=-1"), "400 OutOfRangeQueryParameterValue")
		e.expect("maxresults that is no number", list("maxresults=x"), "400 InvalidQueryParameterValue")
		e.expect("maxresults of 5000", list("maxresults=5000"), "200")
		e.expect("maxresults of 5001", list("maxresults=5001"), "200")
		e.expect("include of something unknown", list("include=nonsense"), "400 InvalidQueryParameterValue")
	},
	"a deleted queue is not listed": func(e *env) {
		e.create()
		e.expect("the queue is listed", e.list(&azqueue.ListQueuesOptions{Prefix: &e.name}), "[["+e.name+"]]")
		_, err := e.q.Delete(e.ctx, nil)
		e.must(err)
		e.expect("the deleted queue is listed", e.list(&azqueue.ListQueuesOptions{Prefix: &e.name}), "[[]]")
	},
	"the account is listed with and without a slash": func(e *env) {
		e.create()
		for _, path := range []string{"", "/"} {
			r := e.do(request{method: "GET", path: path, query: "comp=list&prefix=" + url.QueryEscape(e.name)})
			e.expect("list of "+path, r.String(), "200")
			if !strings.Contains(r.body, "<Name>"+e.name+"</Name>") {
				e.Errorf("list of %q: %s", path, r.body)
			}
		}
	},
}

// list reads all pages; each queue as name or name:metadata, without the case's prefix.
func (e *env) list(o *azqueue.ListQueuesOptions) [][]string {
	e.Helper()
	var pages [][]string
	for p := e.svc.NewListQueuesPager(o); p.More() && len(pages) < 10; {
		r, err := p.NextPage(e.ctx)
		e.must(err)
		page := []string{}
		for _, q := range r.Queues {
			var meta []string
			for k, v := range q.Metadata {
				meta = append(meta, ":"+strings.ToLower(k)+"="+*v)
			}
			slices.Sort(meta)
			page = append(page, strings.TrimPrefix(*q.Name, e.name+"-")+strings.Join(meta, ""))
		}
		pages = append(pages, page)
	}
	return pages
}
