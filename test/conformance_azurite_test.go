package test_test

import (
	"testing"

	"github.com/qwatch/qwatch/internal/conformance"
	"github.com/qwatch/qwatch/test/peer"
)

// The same cases run on queuetest in the main module: where both pass, the double behaves as
// the real thing does.
func TestAzuriteConforms(t *testing.T) {
	azurite := peer.Azurite(t)
	conformance.Run(t, conformance.Target{
		URL:     azurite.QueueURL(),
		Account: peer.AccountName,
		Key:     peer.AccountKey,
		Azurite: true,
	})
}
