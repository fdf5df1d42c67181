package blobstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/qwatch/qwatch/queue"
)

const uploading = "upload a body to"

// Error is a failed call to the Blob service. Its text is one line and holds no secret.
type Error struct {
	Operation string // such as "upload a body to"
	Store     string // account/container
	Status    int    // HTTP status; 0 without an answer
	Code      string // the service's error code; "" when it gave none

	cause error
}

// Error tells operation, object and cause: "download a body from acct/bodies: 404 BlobNotFound".
func (e *Error) Error() string {
	text := e.Operation + " " + e.Store + ": "
	switch {
	case e.Status != 0 && e.Code != "":
		text += fmt.Sprintf("%d %s", e.Status, e.Code)
	case e.Status != 0:
		text += fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
	case errors.Is(e.cause, context.DeadlineExceeded):
		text += "no answer in time"
	default:
		text += e.cause.Error()
	}
	return text + e.hint()
}

func (e *Error) hint() string {
	switch bloberror.Code(e.Code) {
	case "AuthorizationPermissionMismatch":
		return ": the sign-in lacks permission; an identity needs a role such as Storage Blob Data Contributor, a SAS read, write, create and delete"
	case bloberror.ContainerNotFound:
		if e.Operation == uploading {
			return ": create the container, or let the store create it"
		}
	case bloberror.BlobArchived:
		return ": the blob was moved to the archive tier"
	}
	return ""
}

// Is matches what the cause matches, the context's errors among it. Unwrap would have the SDK's error,
// which prints a whole answer.
func (e *Error) Is(target error) bool { return errors.Is(e.cause, target) }

// As reaches the SDK's error, by which queue.Classify tells what happened.
func (e *Error) As(target any) bool { return errors.As(e.cause, target) }

// wrap turns what the SDK returned into an *Error; nil stays nil.
func (s *Store) wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Operation: operation, Store: s.String(), cause: err}
	if resp, ok := errors.AsType[*azcore.ResponseError](err); ok {
		e.Status, e.Code = resp.StatusCode, resp.ErrorCode
	}
	return e
}

// fetching is wrap for Fetch: what will not pass by itself is queue.ErrUnreadable.
func (s *Store) fetching(err error) error {
	err = s.wrap("download a body from", err)
	if e, ok := errors.AsType[*Error](err); ok && e.lasting() {
		return fmt.Errorf("%w: %w", queue.ErrUnreadable, e)
	}
	return err
}

// lasting says whether trying again cannot help.
func (e *Error) lasting() bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusGone, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		return true
	}
	code := bloberror.Code(e.Code)
	return code == bloberror.BlobArchived || code == bloberror.BlobUsesCustomerSpecifiedEncryption
}
