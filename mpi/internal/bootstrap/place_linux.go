package bootstrap

import "github.com/ibrun/ibrun/internal/wakesock"

// place identifies where this process can meet others of its machine. It is not empty.
func place() string {
	if p := wakesock.Place(); p != "" {
		return p
	}
	return "unknown"
}
