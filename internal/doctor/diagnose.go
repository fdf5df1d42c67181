package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// What is wrong; scripts may depend on the words.
const (
	ReasonNameUnknown  = "name_unknown"       // the host does not exist
	ReasonNameServer   = "name_server"        // no name server answers
	ReasonRefused      = "connection_refused" // the port is closed
	ReasonNoAnswer     = "no_answer"          // packets are dropped, or storage is silent
	ReasonNetwork      = "network"            // another fault on the way
	ReasonTLS          = "tls"                // the handshake fails
	ReasonTLSName      = "tls_name"           // the certificate is another host's
	ReasonTLSUntrusted = "tls_untrusted"      // nobody trusted signed it
	ReasonTLSTime      = "tls_time"           // it is out of date, or the clock is
	ReasonToken        = "no_token"           // no token could be had
	ReasonTenant       = "wrong_tenant"       // the token is not accepted
	ReasonKey          = "wrong_key"          // the key does not sign for the account
	ReasonKeysDisabled = "keys_disabled"      // the account takes no keys
	ReasonSAS          = "wrong_sas"          // the SAS does not sign for the account
	ReasonExpired      = "sas_expired"
	ReasonExpires      = "sas_expires_soon"
	ReasonTooEarly     = "sas_not_yet_valid"
	ReasonPermission   = "sas_permission" // the SAS lacks a permission
	ReasonRole         = "missing_role"   // the identity lacks a role
	ReasonNetworkRules = "network_rules"  // the account's firewall refuses this address
	ReasonClock        = "clock_skew"     // the clocks are too far apart
	ReasonDisabled     = "account_disabled"
	ReasonMissing      = "missing_queue" // the queue does not exist
	ReasonThrottled    = "throttled"
	ReasonServer       = "server_error"
	ReasonProbeLeft    = "probe_left" // the message of a check could not be deleted again
	ReasonOther        = "other"
)

// Clocks further apart than this are refused by the service, or soon will be.
const (
	skewRefused = 15 * time.Minute
	skewNear    = 14 * time.Minute
	skewWorth   = time.Minute
)

// diagnosis is what an answer of storage means.
type diagnosis struct {
	reason, cure string
	account      bool // it is the account's fault, not one queue's
}

// diagnose finds out what an error of an operation on a queue, or on the account when name is empty, says.
func (e *examiner) diagnose(op queue.Operation, name string, err error) diagnosis {
	var storage *queue.StorageError
	if !errors.As(err, &storage) {
		if errors.Is(err, context.DeadlineExceeded) {
			return diagnosis{ReasonNoAnswer, "give it longer with --timeout; if that does not help, look at the account's health in the portal", true}
		}
		return diagnosis{reason: ReasonOther}
	}
	if storage.Status == 0 {
		return e.unanswered(storage, err)
	}
	if errors.Is(err, queue.ErrQueueNotFound) {
		return diagnosis{reason: ReasonMissing, cure: fmt.Sprintf("create it: az storage queue create --name %s --account-name %s; or set createIfMissing", name, e.acct.StorageAccount())}
	}
	if d, known := e.refusal(op, name, storage.Code); known {
		return d
	}
	switch storage.Result {
	case queue.ResultThrottled:
		return diagnosis{ReasonThrottled, "the account serves more than it can: wait, or spread the queues over accounts", true}
	case queue.ResultServer:
		return diagnosis{ReasonServer, "storage itself fails: look at the service's status, and try again", true}
	case queue.ResultAuth:
		return diagnosis{ReasonOther, "storage refuses the request: compare the account's settings with the sign-in of the configuration", true}
	}
	return diagnosis{reason: ReasonOther}
}

// unanswered is about requests that got no answer.
func (e *examiner) unanswered(storage *queue.StorageError, err error) diagnosis {
	switch {
	case storage.Result == queue.ResultAuth:
		return diagnosis{ReasonToken, "make the identity available: for type workload, the pod must carry the label azure.workload.identity/use: \"true\", its service account the annotation azure.workload.identity/client-id, " +
			"and the application a federated credential for it; for type managed, the machine must have the identity", true}
	case errors.Is(err, context.DeadlineExceeded):
		return diagnosis{ReasonNoAnswer, "the connection opens and nothing answers: look at the account's health, and at proxies on the way", true}
	default:
		return diagnosis{ReasonNetwork, "check the way to storage: proxies, network policies, firewalls", true}
	}
}

// refusal is about the service's own codes.
func (e *examiner) refusal(op queue.Operation, name, code string) (diagnosis, bool) {
	with := e.acct.SignsWith()
	skew, _ := e.acct.Skew()
	expires, dated := e.acct.CredentialExpiry()
	switch code {
	case "KeyBasedAuthenticationNotPermitted":
		return diagnosis{ReasonKeysDisabled, "the account does not allow shared keys (allowSharedKeyAccess is false): sign in with identity, and give it " + role(op), true}, true
	case "AuthorizationFailure":
		return diagnosis{ReasonNetworkRules, "the account's network rules refuse this address: add this network to them (az storage account network-rule add), or use a private endpoint; " +
			"if the rules allow it, the sign-in has no access at all", true}, true
	case "AuthorizationPermissionMismatch", "AuthorizationResourceTypeMismatch", "AuthorizationServiceMismatch":
		if with == "identity" {
			return diagnosis{reason: ReasonRole, cure: e.grant(op, name)}, true
		}
		return diagnosis{reason: ReasonPermission, cure: "make a SAS with what is missing" + e.lacks(op) + ", or sign in with an identity"}, true
	case "AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation":
		switch {
		case with == "identity":
			return diagnosis{ReasonTenant, "the token is not accepted: check identity.tenantId (the account's own tenant), AZURE_AUTHORITY_HOST for another cloud, and the account's endpoint", true}, true
		case with == "key" && max(skew, -skew) > skewNear:
			return diagnosis{ReasonClock, "set this machine's clock (chrony, systemd-timesyncd): the service refuses signatures more than 15 minutes off", true}, true
		case with == "key":
			return diagnosis{ReasonKey, "copy the key again: az storage account keys list --account-name " + e.acct.StorageAccount() + "; it may have been rotated, or be another account's", true}, true
		case dated && !expires.After(e.acct.Now()):
			return diagnosis{ReasonExpired, "make a new SAS: this one expired at " + expires.Format(time.RFC3339), true}, true
		case max(skew, -skew) > skewNear:
			return diagnosis{ReasonTooEarly, "set this machine's clock, or make the SAS without a start time", true}, true
		}
		return diagnosis{ReasonSAS, "make a new SAS: this one is another account's or queue's, was cut off, begins later, or its key was rotated", true}, true
	case "AuthorizationSourceIPMismatch":
		return diagnosis{ReasonNetworkRules, "the SAS is for other addresses (sip): make one for this network", true}, true
	case "AuthorizationProtocolMismatch":
		return diagnosis{ReasonPermission, "the SAS is for https alone: use an https endpoint", true}, true
	case "AccountIsDisabled":
		return diagnosis{ReasonDisabled, "the account is disabled: look at its subscription", true}, true
	case "ResourceNotFound", "InvalidUri", "FeatureNotSupportedForAccount":
		return diagnosis{ReasonOther, "there is no queue service at this endpoint: check the account's name and kind (Blob-only accounts have no queues)", true}, true
	}
	return diagnosis{}, false
}

// lacks says what a SAS lacks for an operation, as far as it can be read off it.
func (e *examiner) lacks(op queue.Operation) string {
	if err := e.acct.Permits(op); err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return " (" + err.Error() + ")"
	}
	return ""
}

// grant is how a role is given to an identity.
func (e *examiner) grant(op queue.Operation, name string) string {
	scope := "the account " + e.acct.StorageAccount()
	if name != "" && op != queue.OpList {
		scope = fmt.Sprintf("queue %s of account %s, or the whole account", name, e.acct.StorageAccount())
	}
	return fmt.Sprintf("give the identity %s on %s, and wait some minutes; qwatch doctor --emit role prints the least role that suffices for all it does", role(op), scope)
}
