//go:build race

package verbs

// serializedCalls lets the race detector check the promise of a serialized queue: every call writes to it without a lock. Calls
// that may run at the same time are a data race then, whatever the provider of the device does.
type serializedCalls struct{ n uint8 }

func (c *serializedCalls) count() { c.n++ }
