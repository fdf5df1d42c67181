package doctor_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/doctor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// what is a failed or doubtful finding, in short.
type what struct {
	Check, Queue, Operation string
	Status                  doctor.Status
	Reason                  string
}

func wrong(r doctor.Report) []what {
	var out []what
	for _, f := range r {
		if f.Status == doctor.Failed || f.Status == doctor.Warning {
			out = append(out, what{f.Check, f.Queue, f.Operation, f.Status, f.Reason})
		}
	}
	return out
}

func refuse(code string, status int) queuetest.Fault {
	return queuetest.Fault{Status: status, Code: code}
}

// on makes a fault meet one operation alone.
func on(op queuetest.Operation, f queuetest.Fault) queuetest.Fault {
	f.Operation = op
	return f
}

func failed(check, reason string) []what {
	return []what{{Check: check, Status: doctor.Failed, Reason: reason}}
}

// O2: each fault is told apart from the others, with its cure.
func TestFaultsAreToldApart(t *testing.T) {
	later := time.Now().Add(30 * 24 * time.Hour)
	for name, tt := range map[string]struct {
		account string
		faults  []queuetest.Fault
		clock   time.Duration
		bearer  bool
		noToken bool
		options func(*doctor.Options)
		want    []what
		cure    string // a part of the first fault's cure
	}{
		"a wrong key": {
			account: withKey(wrongKey, consumed), want: failed(doctor.CheckSignIn, doctor.ReasonKey), cure: "keys list --account-name devstoreaccount1",
		},
		"a disabled shared key": {
			account: withKey(queuetest.AccountKey, consumed), faults: []queuetest.Fault{refuse("KeyBasedAuthenticationNotPermitted", 403)},
			want: failed(doctor.CheckSignIn, doctor.ReasonKeysDisabled), cure: "sign in with identity",
		},
		"the account's network rules": {
			account: withKey(queuetest.AccountKey, consumed), faults: []queuetest.Fault{refuse("AuthorizationFailure", 403)},
			want: failed(doctor.CheckSignIn, doctor.ReasonNetworkRules), cure: "network-rule add",
		},
		"a skewed clock": {
			account: withKey(queuetest.AccountKey, consumed), clock: 20 * time.Minute,
			want: []what{
				{Check: doctor.CheckSignIn, Status: doctor.Failed, Reason: doctor.ReasonClock},
				{Check: doctor.CheckClock, Status: doctor.Failed, Reason: doctor.ReasonClock},
			},
			cure: "set this machine's clock",
		},
		"a clock that is five minutes off": {
			account: withKey(queuetest.AccountKey, watched), clock: -5 * time.Minute,
			want: []what{{Check: doctor.CheckClock, Status: doctor.Warning, Reason: doctor.ReasonClock}}, cure: "chrony",
		},
		"an identity without any role": {
			account: withIdentity(watched), bearer: true, faults: []queuetest.Fault{refuse("AuthorizationPermissionMismatch", 403)},
			want: []what{
				{doctor.CheckQueue, "orders", "properties", doctor.Failed, doctor.ReasonRole},
				{doctor.CheckQueue, "orders", "peek", doctor.Failed, doctor.ReasonRole},
				{doctor.CheckPoison, "orders-poison", "properties", doctor.Failed, doctor.ReasonRole},
				{doctor.CheckPoison, "orders-poison", "peek", doctor.Failed, doctor.ReasonRole},
			},
			cure: "give the identity Storage Queue Data Reader on queue orders of account devstoreaccount1",
		},
		"an identity that may process but not write": {
			account: withIdentity(consumed), bearer: true,
			faults: []queuetest.Fault{on("update", refuse("AuthorizationPermissionMismatch", 403)), on("create", refuse("AuthorizationPermissionMismatch", 403))},
			want: []what{
				{doctor.CheckQueue, "orders", "update", doctor.Failed, doctor.ReasonRole},
				{doctor.CheckPoison, "orders-poison", "create", doctor.Failed, doctor.ReasonRole},
			},
			cure: "Storage Queue Data Contributor",
		},
		"an identity that may not list": {
			account: withIdentity("discovery: {}"), bearer: true, faults: []queuetest.Fault{on("list", refuse("AuthorizationPermissionMismatch", 403))},
			want: []what{{doctor.CheckDiscovery, "", "list", doctor.Failed, doctor.ReasonRole}}, cure: "Storage Queue Data Reader on the account devstoreaccount1",
		},
		"a pod without the webhook's variables": {
			account: strings.Replace(withIdentity(consumed), "managed", "workload", 1), want: failed(doctor.CheckSignIn, doctor.ReasonToken), cure: "azure.workload.identity/use",
		},
		"a SAS that may list but not read": {
			account: withSAS(signed("l", later), "discovery: {}"),
			want: []what{
				{doctor.CheckDiscovery, "orders", "properties", doctor.Failed, doctor.ReasonPermission},
				{doctor.CheckDiscovery, "orders", "peek", doctor.Failed, doctor.ReasonPermission},
			},
			cure: "make a SAS with what is missing",
		},
		"a SAS that may list what is not read": {account: withSAS(signed("l", later), `discovery: {exclude: ["*"]}`)},
		"discovery that may read":              {account: withSAS(signed("rl", later), "discovery: {}")},
		"no identity on the machine": {
			account: strings.Replace(withIdentity(consumed), "managed", "managed, clientId: nobody", 1), noToken: true, want: failed(doctor.CheckSignIn, doctor.ReasonToken), cure: "azure.workload.identity/client-id",
		},
		"a token of another tenant": {
			account: withIdentity(consumed), want: failed(doctor.CheckSignIn, doctor.ReasonTenant), cure: "identity.tenantId",
		},
		"a read-only SAS": {
			account: withSAS(signed("rl", later), consumed),
			want: []what{
				{doctor.CheckQueue, "orders", "delete", doctor.Failed, doctor.ReasonPermission},
				{doctor.CheckQueue, "orders", "update", doctor.Failed, doctor.ReasonPermission},
				{doctor.CheckPoison, "orders-poison", "create", doctor.Failed, doctor.ReasonPermission},
			},
			cure: "the SAS lacks the permission p (process)",
		},
		"a read-only SAS suffices to watch": {account: withSAS(signed("r", later), watched)},
		"a SAS that expired": {
			account: withSAS(signed("rwdlacup", time.Now().Add(-time.Hour)), consumed),
			want: []what{
				{Check: doctor.CheckSignIn, Status: doctor.Failed, Reason: doctor.ReasonExpired},
				{Check: doctor.CheckExpiry, Status: doctor.Failed, Reason: doctor.ReasonExpired},
			},
			cure: "make a new SAS",
		},
		"a SAS that expires tomorrow": {
			account: withSAS(signed("rwdlacup", time.Now().Add(24*time.Hour)), consumed),
			want:    []what{{Check: doctor.CheckExpiry, Status: doctor.Warning, Reason: doctor.ReasonExpires}}, cure: "in time",
		},
		"a missing queue": {
			account: withKey(queuetest.AccountKey, "queues: [{name: invoices}]"),
			want:    []what{{doctor.CheckQueue, "invoices", "properties", doctor.Failed, doctor.ReasonMissing}}, cure: "az storage queue create --name invoices",
		},
		"a poison queue that nobody may create": {
			account: withKey(queuetest.AccountKey, strings.Replace(consumed, "consumer", "createPoisonIfMissing: false, consumer", 1)),
			want:    []what{{doctor.CheckPoison, "orders-poison", "properties", doctor.Failed, doctor.ReasonMissing}}, cure: "--name orders-poison",
		},
		"a closed port": {
			account: withKey(queuetest.AccountKey, consumed), options: dialing(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}),
			want: failed(doctor.CheckConnection, doctor.ReasonRefused), cure: "check host and port",
		},
		"a firewall that drops": {
			account: withKey(queuetest.AccountKey, consumed), options: dialing(context.DeadlineExceeded),
			want: failed(doctor.CheckConnection, doctor.ReasonNoAnswer), cure: "let port 10001 out",
		},
		"a name that does not exist": {
			account: strings.Replace(withIdentity(consumed), "devstoreaccount1", "nosuch", 1), options: looking(&net.DNSError{Err: "no such host", IsNotFound: true}),
			want: failed(doctor.CheckAddress, doctor.ReasonNameUnknown), cure: "privatelink",
		},
		"no name server": {
			account: withIdentity(consumed), options: looking(&net.DNSError{Err: "connection refused", Server: "10.0.0.10:53"}),
			want: failed(doctor.CheckAddress, doctor.ReasonNameServer), cure: "resolv.conf",
		},
		"storage throttles": {
			account: withKey(queuetest.AccountKey, watched), faults: []queuetest.Fault{queuetest.Busy(0)},
			want: failed(doctor.CheckSignIn, doctor.ReasonThrottled), cure: "spread the queues",
		},
		"storage is frozen": {
			account: withKey(queuetest.AccountKey, watched), faults: []queuetest.Fault{{Hang: true}},
			options: func(o *doctor.Options) { o.Timeout = 100 * time.Millisecond },
			want:    failed(doctor.CheckSignIn, doctor.ReasonNoAnswer), cure: "account's health",
		},
		"what is sent to try it cannot be deleted": {
			account: withSAS(signed("raulcw", later), consumed),
			want: []what{
				{doctor.CheckQueue, "orders", "delete", doctor.Failed, doctor.ReasonPermission},
			},
			cure: "p (process)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := storage(t, queuetest.Options{AllowBearer: tt.bearer})
			s.SetClockOffset(tt.clock)
			for _, f := range tt.faults {
				s.Inject(f)
			}
			o := connected()
			if tt.options != nil {
				tt.options(&o)
			}
			var transport policy.Transporter = s
			if strings.Contains(tt.account, "identity:") {
				transport = entra{storage: s, refuse: tt.noToken}
				if tt.options == nil {
					o.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.invalid:3128") }
				}
			}
			report := examine(t, transport, tt.account, o)
			if diff := cmp.Diff(tt.want, wrong(report)); diff != "" {
				t.Fatalf("what is wrong (-want +got):\n%s\n%+v", diff, report)
			}
			for _, f := range report {
				if f.Status == doctor.Failed || f.Status == doctor.Warning {
					if !strings.Contains(f.Cure, tt.cure) {
						t.Errorf("cure of %s %s: %q does not name %q", f.Check, f.Operation, f.Cure, tt.cure)
					}
					break
				}
			}
		})
	}
}

func dialing(err error) func(*doctor.Options) {
	return func(o *doctor.Options) {
		o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, err }
	}
}

func looking(err error) func(*doctor.Options) {
	return func(o *doctor.Options) {
		o.Lookup = func(context.Context, string) ([]net.IPAddr, error) { return nil, err }
	}
}

func TestEveryPermissionOfAConsumerIsAskedFor(t *testing.T) {
	s := storage(t, queuetest.Options{})
	put(t, s, "orders-poison")
	report := examine(t, s, withKey(queuetest.AccountKey, consumed), connected())
	var got []string
	for _, f := range report {
		if f.Status != doctor.OK {
			t.Errorf("%+v", f)
		}
		if f.Queue != "" {
			got = append(got, f.Queue+" "+f.Operation)
		}
	}
	want := []string{
		"orders properties", "orders peek", "orders delete", "orders update",
		"orders-poison properties", "orders-poison peek", "orders-poison send", "orders-poison create",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// The examination leaves storage as it was, poison queue or not.
func TestNothingChangesInStorage(t *testing.T) {
	for name, poison := range map[string]bool{"with a poison queue": true, "without one": false} {
		t.Run(name, func(t *testing.T) {
			s := storage(t, queuetest.Options{})
			if poison {
				put(t, s, "orders-poison")
			}
			before, queues := s.Messages(queuetest.AccountName, "orders"), s.Queues(queuetest.AccountName)
			examine(t, s, withKey(queuetest.AccountKey, strings.Replace(consumed, "consumer", "createIfMissing: true, consumer", 1)), connected())
			if diff := cmp.Diff(before, s.Messages(queuetest.AccountName, "orders")); diff != "" {
				t.Errorf("messages changed (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(queues, s.Queues(queuetest.AccountName)); diff != "" {
				t.Errorf("queues changed (-before +after):\n%s", diff)
			}
			if n := s.Len(queuetest.AccountName, "orders-poison"); n > 0 {
				t.Errorf("%d messages were left in the poison queue", n)
			}
			if n := s.Requests(queuetest.Op{Operation: queuetest.OpReceive}); n > 0 {
				t.Errorf("%d receives: they hide messages", n)
			}
		})
	}
}

func TestAProbeThatCannotBeDeletedIsTold(t *testing.T) {
	s := storage(t, queuetest.Options{})
	put(t, s, "orders-poison")
	s.Inject(queuetest.Fault{Queue: "orders-poison", Operation: "delete", Status: 403, Code: "AuthorizationPermissionMismatch"})
	report := examine(t, s, withKey(queuetest.AccountKey, consumed), connected())
	want := []what{{doctor.CheckPoison, "orders-poison", "send", doctor.Warning, doctor.ReasonProbeLeft}}
	if diff := cmp.Diff(want, wrong(report)); diff != "" {
		t.Errorf("what is wrong (-want +got):\n%s", diff)
	}
	for _, m := range s.Messages(queuetest.AccountName, "orders-poison") {
		if m.Visible || m.ExpiresAt.Sub(m.InsertedAt) > time.Minute {
			t.Errorf("the message left behind is %+v", m)
		}
	}
}

func TestACertificateNobodyTrustsIsTold(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	account := strings.Replace(withIdentity(consumed), "https://devstoreaccount1.queue.core.windows.net", server.URL+"/devstoreaccount1", 1)
	o := connected()
	o.Dial = nil
	report := examine(t, entra{storage: storage(t, queuetest.Options{})}, account, o)
	if diff := cmp.Diff(failed(doctor.CheckTLS, doctor.ReasonTLSUntrusted), wrong(report)); diff != "" {
		t.Errorf("what is wrong (-want +got):\n%s", diff)
	}
}

func TestAddressesAreSpelledOut(t *testing.T) {
	o := connected()
	o.Lookup = func(context.Context, string) ([]net.IPAddr, error) {
		return []net.IPAddr{{IP: net.IPv4(10, 0, 0, 4)}, {IP: net.IPv4(20, 60, 1, 2)}}, nil
	}
	o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, context.DeadlineExceeded }
	report := examine(t, entra{storage: storage(t, queuetest.Options{})}, withIdentity(consumed), o)
	if want := "devstoreaccount1.queue.core.windows.net is 10.0.0.4 (private), 20.60.1.2 (public)"; report[0].Detail != want {
		t.Errorf("got %q, want %q", report[0].Detail, want)
	}
}
