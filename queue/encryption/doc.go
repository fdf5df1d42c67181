// Package encryption reads and writes Azure Storage's client-side encryption, version 2, as the .NET
// SDK's encrypted queue clients do, and holds keys that are local to the process.
//
// It owns the message format and key wrapping. Who encrypts what is package queue's: see
// queue.Config.KeyWrapper. Keys in Key Vault are package keyvault's. What has been proved against the
// other SDKs, and what has not, is in docs/encryption.md.
package encryption
