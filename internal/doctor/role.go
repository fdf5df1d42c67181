package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue"
)

// need is what is asked of a queue and of its poison queue, in order.
type need struct{ main, poison []queue.Operation }

// needs returns what the configuration makes qwatch do with a queue.
func needs(q config.Queue) need {
	look := []queue.Operation{queue.OpProperties, queue.OpPeek}
	if q.CountsOnly {
		look = look[:1]
	}
	n := need{main: slices.Clone(look)}
	if !q.NoPoison {
		n.poison = slices.Clone(look)
	}
	if q.Consumer == nil {
		return n
	}
	n.main = append(n.main, queue.OpDelete, queue.OpUpdate)
	if q.CreateIfMissing {
		n.main = append(n.main, queue.OpCreate)
	}
	if !q.NoPoison {
		n.poison = append(n.poison, queue.OpSend)
		if q.CreatePoisonIfMissing {
			n.poison = append(n.poison, queue.OpCreate)
		}
	}
	return n
}

// The built-in roles, by how much they allow.
const (
	roleReader      = "Storage Queue Data Reader"
	roleProcessor   = "Storage Queue Data Message Processor"
	roleSender      = "Storage Queue Data Message Sender"
	roleContributor = "Storage Queue Data Contributor"
	roleBlobs       = "Storage Blob Data Contributor"
	roleTables      = "Storage Table Data Contributor"
)

// role returns the least built-in role that allows an operation.
func role(op queue.Operation) string {
	switch op {
	case queue.OpProperties, queue.OpPeek, queue.OpList:
		return roleReader
	case queue.OpReceive, queue.OpDelete:
		return roleProcessor
	case queue.OpSend:
		return roleSender
	default:
		return roleContributor
	}
}

// Role is an Azure role definition as `az role definition create` reads it.
type Role struct {
	Name             string   `json:"Name"`
	IsCustom         bool     `json:"IsCustom"`
	Description      string   `json:"Description"`
	Actions          []string `json:"Actions"`
	NotActions       []string `json:"NotActions"`
	DataActions      []string `json:"DataActions"`
	NotDataActions   []string `json:"NotDataActions"`
	AssignableScopes []string `json:"AssignableScopes"`

	// BuiltIn are the built-in roles that together allow the same, and in general more.
	BuiltIn []string `json:"-"`
}

const (
	queues   = "Microsoft.Storage/storageAccounts/queueServices/queues/"
	messages = queues + "messages/"
	tables   = "Microsoft.Storage/storageAccounts/tableServices/tables/"
	blobs    = "Microsoft.Storage/storageAccounts/blobServices/containers/"
)

// LeastRole returns the least role that suffices for what the configuration does with an account.
func LeastRole(cfg *config.Config, account string) (Role, error) {
	i := slices.IndexFunc(cfg.Accounts, func(a config.Account) bool { return a.Name == account })
	if i < 0 {
		return Role{}, fmt.Errorf("account %q is not configured", account)
	}
	a := cfg.Accounts[i]
	ops := map[queue.Operation]bool{}
	stores, keeps, notes := false, false, false
	collect := func(q config.Queue) {
		n := needs(q)
		for _, op := range slices.Concat(n.main, n.poison) {
			ops[op] = true
		}
		stores = stores || q.LargeMessages != nil
		notes = notes || q.Consumer != nil && q.Consumer.Breaker && q.Consumer.OutageRecord
		keeps = keeps || q.Consumer != nil && (q.Consumer.FailureRecords != nil || q.Consumer.Idempotency != nil)
	}
	for _, q := range a.Queues {
		collect(q)
	}
	if a.Discovery != nil {
		ops[queue.OpList] = true
		found := cfg.QueueFor(a.Name, "any")
		found.Consumer, found.LargeMessages = nil, nil // what is found is only watched, without bodies
		collect(found)
	}
	if c := cfg.Watch.Canary; c != nil && c.Account == a.Name {
		collect(canaryQueue(c))
	}
	r := Role{
		Name: "qwatch on " + account, IsCustom: true,
		Description:      "What qwatch does with account " + account + " as it is configured, and no more.",
		AssignableScopes: []string{"/subscriptions/SUBSCRIPTION/resourceGroups/GROUP"},
		Actions:          []string{}, NotActions: []string{}, DataActions: []string{}, NotDataActions: []string{},
	}
	if len(ops) == 0 {
		return r, fmt.Errorf("account %q has neither queues nor discovery: it needs no role", account)
	}
	r.Actions = append(r.Actions, queues+"read")
	if ops[queue.OpCreate] || notes {
		r.Actions = append(r.Actions, queues+"write")
	}
	if ops[queue.OpPeek] {
		r.DataActions = append(r.DataActions, messages+"read")
	}
	if ops[queue.OpDelete] {
		// Update and send are both allowed by write.
		r.DataActions = append(r.DataActions, messages+"process/action", messages+"write")
	}
	r.BuiltIn = []string{roleReader}
	if ops[queue.OpDelete] {
		r.BuiltIn = []string{roleContributor}
	}
	if stores {
		r.Actions = append(r.Actions, blobs+"read", blobs+"write")
		r.DataActions = append(r.DataActions, blobs+"blobs/read", blobs+"blobs/write", blobs+"blobs/delete")
		r.BuiltIn = append(r.BuiltIn, roleBlobs)
	}
	if keeps {
		r.Actions = append(r.Actions, tables+"read", tables+"write")
		r.DataActions = append(r.DataActions, tables+"entities/read", tables+"entities/write", tables+"entities/delete")
		r.BuiltIn = append(r.BuiltIn, roleTables)
	}
	return r, nil
}

// Same says whether two roles allow the same.
func (r Role) Same(o Role) bool {
	return slices.Equal(r.Actions, o.Actions) && slices.Equal(r.DataActions, o.DataActions)
}

// Suffices tells in words which built-in roles allow it.
func (r Role) Suffices() string { return strings.Join(r.BuiltIn, " and ") }
