package encryption

import "encoding/binary"

// A sequence is how one SDK numbers the nonces of a message's regions.
type sequence func(index uint64) [nonceLength]byte

// sequences are those of the .NET, Python and Java SDKs, the .NET SDK's first. A reader that did not
// check them would take regions in another order than they were written in.
func sequences() []sequence {
	return []sequence{dotnetNonce, pythonNonce, javaNonce}
}

// dotnetNonce is four zero bytes, then the number counted from 1, little end first.
func dotnetNonce(index uint64) (n [nonceLength]byte) {
	binary.LittleEndian.PutUint64(n[4:], index+1)
	return n
}

// pythonNonce is the number counted from 0 in all twelve bytes, big end first.
func pythonNonce(index uint64) (n [nonceLength]byte) {
	binary.BigEndian.PutUint64(n[4:], index)
	return n
}

// javaNonce is the number counted from 0, big end first, then four zero bytes.
func javaNonce(index uint64) (n [nonceLength]byte) {
	binary.BigEndian.PutUint64(n[:8], index)
	return n
}

// following keeps the sequences in which the nonce is the one of that index.
func following(from []sequence, nonce []byte, index uint64) []sequence {
	var kept []sequence
	for _, s := range from {
		if n := s(index); string(n[:]) == string(nonce) {
			kept = append(kept, s)
		}
	}
	return kept
}
