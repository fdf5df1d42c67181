package main

import "net"

// checkAddress says whether a flag's value is an address one can listen at.
func checkAddress(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return usagef("%s %q must be HOST:PORT, like 127.0.0.1:10001 or :10001", flag, address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return usagef("%s %q: %q is not a port", flag, address, port)
	}
	return nil
}
