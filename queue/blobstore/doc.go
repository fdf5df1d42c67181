// Package blobstore keeps the bodies of messages that are too large for a queue in Azure Blob storage:
// the message carries the blob's address, and receivers fetch the body before it is handed out.
//
// It owns one container. What a message says is untrusted: an address of another account, host or
// container, or one with anything but a plain blob name in it, is refused without a request.
package blobstore
