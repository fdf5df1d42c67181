package app_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/qwatch/qwatch/queue/queuetest"
)

const discovering = `
accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues:
      - {name: orders, team: payments, consumer: {handler: {http: {url: "http://handler.invalid/"}}}}
    discovery: {exclude: ["*-tmp"]}
defaults: [{match: "*", team: platform, tier: 3, objective: {timeInQueue: 10m}}]
watch: {pricePer10kTransactions: 0.4}
server: {grpc: off}
`

// C2, C7, C12: what the file says of watching reaches the metrics.
func TestQueuesAreDiscovered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := startOn(t, discovering, nil, func(s *queuetest.Server) policy.Transporter {
			return described{s, "bills", map[string]string{"qwatch_team": "billing", "qwatch_objective": "2m"}}
		})
		for _, name := range []string{"bills", "bills-poison", "x-tmp", "hub-control-00", "left-poison"} {
			r.create(name)
		}
		settle(time.Hour)
		for _, part := range []string{
			`qwatch_discovery_queues{account="acct"} 2`,
			`qwatch_discovery_queues_dropped{account="acct"} 0`,
			`queue_info{account="acct",mode="consume",physical_name="orders",poison_queue="orders-poison",queue_kind="main",queue_name="orders",storage_account="devstoreaccount1",team="payments",tier="3"} 1`,
			`queue_info{account="acct",mode="watch",physical_name="bills-poison",poison_queue="bills-poison",queue_kind="poison",queue_name="bills",storage_account="devstoreaccount1",team="billing",tier="3"} 1`,
			`queue_time_in_queue_objective_seconds{account="acct",queue_name="bills"} 120`,
			`queue_time_in_queue_objective_seconds{account="acct",queue_name="orders"} 600`,
			`queue_status{account="acct",queue_kind="main",queue_name="bills",status="idle"} 1`,
			`queue_poll_interval_seconds{account="acct",queue_kind="main",queue_name="bills"} 300`,
			`queue_poll_interval_seconds{account="acct",queue_kind="poison",queue_name="bills"} 60`,
			`queue_up{account="acct",queue_kind="poison",queue_name="left"} 1`,
			`qwatch_storage_request_duration_seconds_count{account="acct",operation="list",result="ok"}`,
			`qwatch_storage_estimated_monthly_cost{account="acct"}`,
		} {
			r.want("http://main/metrics", http.StatusOK, part)
		}
		_, text := r.get("http://main/metrics")
		for _, name := range []string{"x-tmp", "hub-control-00"} {
			if strings.Contains(text, name) {
				t.Errorf("%s is watched", name)
			}
		}
		r.want("http://main/api/v1/queues/acct/bills", http.StatusOK, `"status":"idle"`)
		r.end()
	})
}

func TestTheCompactSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, oneQueue+"watch: {series: compact, idleInterval: 15m, poisonIdleInterval: 2m, patience: 1m}\n", nil)
		r.send("watched", "x")
		settle(10 * time.Minute)
		_, text := r.get("http://main/metrics")
		for part, want := range map[string]bool{
			`queue_status{account="acct",queue_kind="main",queue_name="watched",status="stalled"} 1`: true,
			`queue_status{account="acct",queue_kind="main",queue_name="watched",status="ok"}`:        false,
			`queue_polls_total`: false,
			`queue_poll_interval_seconds{account="acct",queue_kind="poison",queue_name="orders"} 120`: true,
			`queue_poll_interval_seconds{account="acct",queue_kind="main",queue_name="orders"} 900`:   true,
		} {
			if strings.Contains(text, part) != want {
				t.Errorf("%s: there %t", part, !want)
			}
		}
		r.end()
	})
}

// described answers for a queue as if it had metadata.
type described struct {
	*queuetest.Server
	queue    string
	metadata map[string]string
}

// Do makes the exchange.
func (d described) Do(r *http.Request) (*http.Response, error) {
	resp, err := d.Server.Do(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/"+d.queue) && r.URL.Query().Get("comp") == "metadata" {
		for k, v := range d.metadata {
			resp.Header.Set("x-ms-meta-"+k, v)
		}
	}
	return resp, err
}
