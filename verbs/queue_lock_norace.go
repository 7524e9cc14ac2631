//go:build !race

package verbs

// serializedCalls does nothing in programs that are built without the race detector.
type serializedCalls struct{}

func (serializedCalls) count() {}
