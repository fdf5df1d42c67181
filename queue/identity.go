package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// IdentityType says where an identity's tokens come from.
type IdentityType string

// The identity types. IdentityDefault tries environment variables, workload identity, managed identity
// and the developer tools, in this order, and is what "" means.
const (
	IdentityDefault  IdentityType = "default"
	IdentityWorkload IdentityType = "workload"
	IdentityManaged  IdentityType = "managed"
)

// Identity is a Microsoft Entra identity. The zero value is the default chain.
type Identity struct {
	Type IdentityType
	// ClientID of the application or user-assigned identity. For IdentityWorkload the default is
	// AZURE_CLIENT_ID, for IdentityManaged the system-assigned identity. Not for IdentityDefault,
	// which takes AZURE_CLIENT_ID.
	ClientID string
	// TenantID for IdentityWorkload (default AZURE_TENANT_ID) and IdentityDefault.
	TenantID string
	// Credential is a credential of the caller's own, for Go programs. The other fields are then empty.
	Credential azcore.TokenCredential
}

// storageScope is the same in every cloud; the authority that issues the token is not.
const storageScope = "https://storage.azure.com/.default"

func (s *signIn) useIdentity(cfg AccountConfig, f *faults, given bool, next policy.Transporter) {
	if given && s.endpoint.scheme != "https" {
		f.say("endpoint", "an identity's token is only sent over https, but the endpoint is http: use https, or sign in with accountKey")
	}
	opts := azcore.ClientOptions{
		Cloud:     cloudOf(s.endpoint),
		Telemetry: policy.TelemetryOptions{ApplicationID: "qwatch"},
		Transport: next,
	}
	if cred := cfg.Identity.credential(f, opts); cred != nil {
		s.identity = tokenSource{cred}
	}
}

func (id Identity) credential(f *faults, opts azcore.ClientOptions) azcore.TokenCredential {
	var (
		cred azcore.TokenCredential
		err  error
	)
	switch {
	case id.Credential != nil:
		if id.Type != "" || id.ClientID != "" || id.TenantID != "" {
			f.say("identity", "a credential of one's own leaves no use for type, clientId and tenantId: remove them")
		}
		return id.Credential
	case id.Type == "" || id.Type == IdentityDefault:
		if id.ClientID != "" {
			f.say("identity.clientId", "the default chain takes it from AZURE_CLIENT_ID: set that, or type workload or managed")
			return nil
		}
		cred, err = azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: opts, TenantID: id.TenantID})
	case id.Type == IdentityWorkload:
		if missing := id.missingVariables(); len(missing) > 0 {
			return noWorkload{missing}
		}
		cred, err = azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: opts, ClientID: id.ClientID, TenantID: id.TenantID})
	case id.Type == IdentityManaged:
		if id.TenantID != "" {
			f.say("identity.tenantId", "a managed identity is of one tenant: remove it")
			return nil
		}
		o := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: opts}
		if id.ClientID != "" {
			o.ID = azidentity.ClientID(id.ClientID)
		}
		cred, err = azidentity.NewManagedIdentityCredential(o)
	default:
		f.say("identity.type", "%q is not one of default, workload, managed", clip(string(id.Type), 40))
		return nil
	}
	if err != nil {
		f.add("identity", errors.New(oneLine(err.Error())))
		return nil
	}
	return cred
}

// missingVariables are those that the webhook of workload identity sets in a pod, and that nothing else tells.
func (id Identity) missingVariables() []string {
	var missing []string
	for _, v := range []struct{ name, given string }{
		{"AZURE_CLIENT_ID", id.ClientID}, {"AZURE_TENANT_ID", id.TenantID}, {"AZURE_FEDERATED_TOKEN_FILE", ""},
	} {
		if v.given == "" && os.Getenv(v.name) == "" {
			missing = append(missing, v.name)
		}
	}
	return missing
}

// noWorkload is a workload identity where the webhook has not been: the configuration is right, the pod is not, so
// that it is a sign-in that fails. A process does not get its variables later.
type noWorkload struct{ missing []string }

// GetToken implements azcore.TokenCredential.
func (n noWorkload) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{}, fmt.Errorf("workload identity needs %s, which its webhook sets in pods labelled azure.workload.identity/use: \"true\": "+
		"label the pod and annotate its service account with azure.workload.identity/client-id, then restart the pod", strings.Join(n.missing, " and "))
}

// cloudOf returns the cloud of an endpoint. For the public one, and for those that cannot be told,
// it says nothing: AZURE_AUTHORITY_HOST decides, and is the public authority by default.
func cloudOf(e endpoint) cloud.Configuration {
	switch e.suffix {
	case suffixChina:
		return cloud.AzureChina
	case suffixGov:
		return cloud.AzureGovernment
	default:
		return cloud.Configuration{}
	}
}

func bearer(cred azcore.TokenCredential) policy.Policy {
	return runtime.NewBearerTokenPolicy(cred, []string{storageScope}, nil)
}

// tokenSource marks a credential's errors, so that they can be told from the service's.
type tokenSource struct{ cred azcore.TokenCredential }

// GetToken implements azcore.TokenCredential.
func (t tokenSource) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	tok, err := t.cred.GetToken(ctx, o)
	if err != nil {
		return tok, &signInError{cause: shortSignIn(err)}
	}
	return tok, nil
}

// shortSignIn makes one line of azidentity's dump of an answer: who answers, status and the authority's first sentence.
func shortSignIn(err error) error {
	var failed *azidentity.AuthenticationFailedError
	if !errors.As(err, &failed) || failed.RawResponse == nil {
		return err
	}
	body, _ := runtime.Payload(failed.RawResponse)
	var told struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	_ = json.Unmarshal(body, &told)
	said, _, _ := strings.Cut(strings.ReplaceAll(told.Description, "\r", "\n"), "\n")
	said, _, _ = strings.Cut(said, " Trace ID:")
	if said == "" {
		said = told.Error
	}
	if said == "" {
		said = http.StatusText(failed.RawResponse.StatusCode)
	}
	text := strconv.Itoa(failed.RawResponse.StatusCode) + " " + said
	if r := failed.RawResponse.Request; r != nil {
		text = r.URL.Host + " answers " + text // it is not storage that refuses
	}
	return &authorityError{text: oneLine(text), cause: err}
}

type authorityError struct {
	text  string
	cause error
}

func (e *authorityError) Error() string { return e.text }

// Is matches the context's errors only: the cause would print the authority's whole answer.
func (e *authorityError) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(e.cause, target)
}
