package test_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/failures"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/test/peer"
)

// failingEnv makes a process of the test binary a worker that fails; its value is a task.
const failingEnv = "QWATCH_TEST_FAILING"

// What such a worker does with the one message of the queue "orders".
const (
	taskFail = "fail, note the attempt, die"
	taskCopy = "dead-letter it, recording the failure, and die before the delete"
	taskMove = "dead-letter it, recording the failure"
)

func startFailing(t *testing.T, azurite *peer.AzuriteServer, task string) *peer.Process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), failingEnv+"="+task, "AZURITE="+azurite.ConnectionString())
	return peer.Start(t, "worker", cmd)
}

func failingWorker() int {
	if err := fail(context.Background(), os.Getenv(failingEnv), os.Getenv("AZURITE")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func fail(ctx context.Context, task, connectionString string) error {
	var client dyingClient
	if task == taskCopy {
		client.before = http.MethodDelete
	}
	account, err := queue.NewAccount(queue.AccountConfig{Name: "test", ConnectionString: queue.Secret(connectionString), Transport: client})
	if err != nil {
		return err
	}
	q, err := account.Queue("orders", queue.Config{})
	if err != nil {
		return err
	}
	service, err := aztables.NewServiceClientFromConnectionString(connectionString, nil)
	if err != nil {
		return err
	}
	store, err := failures.Tables(service.NewClient("failures"), failures.TablesOptions{})
	if err != nil {
		return err
	}
	recorder, err := failures.NewRecorder(store, failures.Options{MaxBody: 1 << 10, Key: func(m *processor.Message) (string, error) {
		b, err := queue.Decode[body](m.Message)
		return b.ID, err
	}})
	if err != nil {
		return err
	}
	m, err := await(ctx, q)
	if err != nil {
		return err
	}
	started := time.Now()
	cause := fmt.Errorf("no such article (delivery %d)", m.DequeueCount)
	switch task {
	case taskFail:
		recorder.Failed(ctx, m, "handler", cause, started, time.Second)
		die()
	case taskCopy:
		recorder.DeadLettered(ctx, m, poison.CategoryHandler, "no such article", cause, started, time.Second)
		return poison.Move(ctx, m.Message, poison.CategoryHandler, "no such article")
	case taskMove:
		recorder.DeadLettered(ctx, m, poison.CategoryMaxDequeue, "delivered 3 times", cause, started, time.Second)
		return poison.Move(ctx, m.Message, poison.CategoryMaxDequeue, "delivered 3 times")
	}
	return fmt.Errorf("no such task: %s", task)
}

// await receives the one message of a queue, once whoever had it before is gone.
func await(ctx context.Context, q *queue.Queue) (*processor.Message, error) {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		messages, err := q.Receive(ctx, 1, 2*time.Second)
		if err != nil {
			return nil, err
		}
		if len(messages) == 1 {
			return &processor.Message{Message: messages[0]}, nil
		}
	}
	return nil, fmt.Errorf("no message on %s", q)
}
