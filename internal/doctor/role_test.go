package doctor_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/doctor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// O2: --emit role prints the least role that suffices.
func TestLeastRole(t *testing.T) {
	const service = "Microsoft.Storage/storageAccounts/queueServices/queues/"
	for name, tt := range map[string]struct {
		account             string
		actions, dataAction string
		builtIn             string
	}{
		"watch only": {watched, "read", "messages/read", "Storage Queue Data Reader"},
		"counts only": {
			"queues: [{name: orders, countsOnly: true}]", "read", "", "Storage Queue Data Reader",
		},
		"discovery": {"discovery: {}", "read", "messages/read", "Storage Queue Data Reader"},
		"consume":   {consumed, "read write", "messages/read messages/process/action messages/write", "Storage Queue Data Contributor"},
		"consume, and keep records": {
			strings.Replace(consumed, `"}}}`, `"}}, failureRecords: {}}`, 1),
			"read write Microsoft.Storage/storageAccounts/tableServices/tables/read Microsoft.Storage/storageAccounts/tableServices/tables/write",
			"messages/read messages/process/action messages/write Microsoft.Storage/storageAccounts/tableServices/tables/entities/read " +
				"Microsoft.Storage/storageAccounts/tableServices/tables/entities/write Microsoft.Storage/storageAccounts/tableServices/tables/entities/delete",
			"Storage Queue Data Contributor and Storage Table Data Contributor",
		},
		"consume, with the poison queue made by hand": {
			strings.Replace(consumed, "consumer", "createPoisonIfMissing: false, consumer", 1), "read write",
			"messages/read messages/process/action messages/write", "Storage Queue Data Contributor",
		},
		"consume, with the poison queue made by hand and outages kept to oneself": {
			strings.Replace(strings.Replace(consumed, "consumer", "createPoisonIfMissing: false, consumer", 1), `"}}}`, `"}}, outageRecord: false}`, 1), "read",
			"messages/read messages/process/action messages/write", "Storage Queue Data Contributor",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := doctor.LeastRole(parse(t, withKey(queuetest.AccountKey, tt.account)), "acct")
			if err != nil {
				t.Fatal(err)
			}
			short := func(actions []string) string {
				return strings.ReplaceAll(strings.Join(actions, " "), service, "")
			}
			got := []string{short(r.Actions), short(r.DataActions), r.Suffices()}
			if diff := cmp.Diff([]string{tt.actions, tt.dataAction, tt.builtIn}, got); diff != "" {
				t.Errorf("role (-want +got):\n%s", diff)
			}
		})
	}
}
