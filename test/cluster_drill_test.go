//go:build drill

package test_test

import (
	"testing"

	"github.com/qwatch/qwatch/test/peer"
)

// C8: the election on a Lease of the real API server.
func TestDrillLeaderChangesOnAPIServer(t *testing.T) {
	leaderChanges(t, peer.APIServer(t), true)
}
