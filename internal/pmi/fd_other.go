//go:build !unix

package pmi

import "errors"

// openFD returns an error: only Unix systems inherit descriptors by number.
func openFD(int) (conn, error) {
	return nil, errors.New("not usable: only Unix systems inherit descriptors")
}
