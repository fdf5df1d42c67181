package doctor

import (
	"context"
	"errors"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue"
)

// CheckTable is the check of a table that a consumer keeps records or keys in.
const CheckTable = "table"

// ReasonTable is that such a table does not exist, and is not to be created.
const ReasonTable = "missing_table"

// tables asks for the tables of a queue's consumer. Writing is not tried.
func (e *examiner) tables(ctx context.Context, q app.FleetQueue) Report {
	var r Report
	for _, t := range q.Tables() {
		f := Finding{Account: e.cfg.Name, Queue: q.Name(), Check: CheckTable, Status: OK, Detail: "allowed to read table " + t.Name}
		err := e.within(ctx, t.Ask)
		said, answered := errors.AsType[*app.TableError](err)
		switch {
		case err == nil:
		case answered && said.Code == "TableNotFound" && t.Create:
			f.Detail = "table " + t.Name + " does not exist yet; it is created when first needed"
		case answered && said.Code == "TableNotFound":
			f.Status, f.Reason, f.Detail = Failed, ReasonTable, err.Error()
			f.Cure = "create the table " + t.Name + ", or set " + t.Setting + ".createTable"
		case answered && (said.Status == 403 || said.Status == 401):
			f.Status, f.Reason, f.Detail = Failed, ReasonPermission, err.Error()
			f.Cure = "make a SAS that covers tables, or sign in with an identity"
			if e.acct.SignsWith() == "identity" {
				f.Reason, f.Cure = ReasonRole, "give the identity "+roleTables+" on the account "+e.acct.StorageAccount()
			}
		default:
			f.Status, f.Reason, f.Detail = Failed, ReasonNetwork, "read from table "+t.Name+": "+short(err)
			f.Cure = "check " + t.Setting + ".endpoint, and the way to the Table service: private endpoint, network rules"
		}
		r = append(r, f)
	}
	return r
}

// canary is the account's canary queue as a queue that is consumed and created; nil when there is none.
func (e *examiner) canary(c *config.Canary) []app.FleetQueue {
	if c == nil || c.Account != e.cfg.Name {
		return nil
	}
	q, err := e.acct.Queue(c.Queue, queue.Config{NoPoison: true})
	if err != nil {
		return nil // the account's URL names another queue
	}
	return []app.FleetQueue{{Queue: q, Config: canaryQueue(c)}}
}

func canaryQueue(c *config.Canary) config.Queue {
	return config.Queue{Account: c.Account, Name: c.Queue, Settings: config.Settings{
		NoPoison: true, CreateIfMissing: true, CountsOnly: true, Consumer: &config.Consumer{},
	}}
}
