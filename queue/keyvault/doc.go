// Package keyvault wraps the content keys of encrypted messages with a key in Azure Key Vault or Managed
// HSM, which never leaves it. It is a queue.Config.KeyWrapper.
//
// Each message sent and each message received costs one call to the vault, as with the .NET SDK; the
// identity needs the role Key Vault Crypto User, or the permissions wrap key and unwrap key.
package keyvault
