//go:build !linux || static || !(amd64 || arm64)

package dlopen

// Load returns a [MissingError].
func Load(l *Library, _ Symbols) error { return &MissingError{What: l.Name, Need: Needs} }

// Needs says what a program needs that loads a library.
const Needs = "a program for linux on amd64 or arm64, built without -tags static"
