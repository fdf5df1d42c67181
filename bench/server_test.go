package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/qwatch/qwatch/queue/queuetest"
)

// serve names the environment variable that makes the test binary the queue service.
const serve = "QWATCH_BENCH_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serve) != "" {
		if err := runServer(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runServer serves a queue service on a loopback port until its standard input ends.
func runServer() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	handler := queuetest.New(queuetest.Options{})
	if os.Getenv(serve) == "fleet" {
		if handler, err = fleetServer(); err != nil {
			return err
		}
	}
	srv := &http.Server{Handler: handler}
	go func() { _ = srv.Serve(ln) }() // ends with the process
	fmt.Println("http://" + ln.Addr().String())
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // the parent's end of the pipe closes with it
	return nil
}

// service is the queue service in a process of its own.
type service struct{ url string }

func startService(tb testing.TB) service {
	tb.Helper()
	return service{url: startServer(tb, "empty") + "/" + queuetest.AccountName}
}

// startServer starts a service of that kind, empty or fleet, and returns where it listens.
func startServer(tb testing.TB, kind string) string {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serve+"="+kind)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close() // the service ends when it does
		if err := cmd.Wait(); err != nil {
			tb.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// transport is the same for both sides, so that neither wins by its pool.
func transport() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: (&net.Dialer{}).DialContext, MaxIdleConns: 256, MaxIdleConnsPerHost: 128, DisableCompression: true,
	}}
}

// raw returns a client of the plain SDK.
func (s service) raw(tb testing.TB, name string) *azqueue.QueueClient {
	tb.Helper()
	cred, err := azqueue.NewSharedKeyCredential(queuetest.AccountName, queuetest.AccountKey)
	if err != nil {
		tb.Fatal(err)
	}
	opts := &azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: transport(), Retry: policy.RetryOptions{MaxRetries: -1}}}
	svc, err := azqueue.NewServiceClientWithSharedKeyCredential(s.url, cred, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return svc.NewQueueClient(name)
}

// fill puts n messages of 200 bytes on a new queue.
func fill(tb testing.TB, q *azqueue.QueueClient, n int) {
	tb.Helper()
	fillWith(tb, q, n, `{"pad":"`+strings.Repeat("x", 190)+`"}`)
}

// fillWith puts n messages with a text on a new queue.
func fillWith(tb testing.TB, q *azqueue.QueueClient, n int, body string) {
	tb.Helper()
	ctx := context.Background()
	if _, err := q.Create(ctx, nil); err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	work := make(chan struct{}, n)
	for range n {
		work <- struct{}{}
	}
	close(work)
	for range 16 {
		wg.Go(func() {
			for range work {
				if _, err := q.EnqueueMessage(ctx, body, nil); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
