package demo

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// operator is who may steer the demo: by a token that is made by chance each time.
type operator struct {
	file  string // of the tokens; "": nobody may
	token string
}

// newOperator writes a tokens file into a directory.
func newOperator(dir string) (operator, error) {
	secret := make([]byte, 16)
	_, _ = rand.Read(secret) // it never fails
	op := operator{filepath.Join(dir, "tokens.yaml"), hex.EncodeToString(secret)}
	text := fmt.Sprintf("- {name: demo-operator, role: operator, token: %q}\n", op.token)
	if err := os.WriteFile(op.file, []byte(text), 0o600); err != nil {
		return operator{}, fmt.Errorf("write the operator's token: %w", err)
	}
	return op, nil
}
