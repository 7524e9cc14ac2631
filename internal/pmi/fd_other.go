//go:build !unix

package pmi

import "errors"

// openFD says that descriptors are not inherited by number here.
func openFD(int) (conn, error) {
	return nil, errors.New("of no use here: inherited descriptors need a Unix system")
}
